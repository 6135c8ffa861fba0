#include "distributed/process_group.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_failure.h"
#include "runtime/driver/driver_table.h"
#include "runtime/process.h"
#include "transfer/transfer.h"

namespace outboard::distributed {
namespace {

// ---- Pool of streams of destroyed groups, for new ones: streams are never destroyed

struct FreeStreams {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::vector<c10::Stream>> streams;
};

FreeStreams& free_streams() {
  static auto* instance = new FreeStreams;
  return *instance;
}

// A stream of the highest priority, exclusive to the caller.
c10::Stream take_stream(c10::DeviceIndex device) {
  FreeStreams& all = free_streams();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    auto& free = all.streams[device];
    if (!free.empty()) {
      const c10::Stream stream = free.back();
      free.pop_back();
      return stream;
    }
  }
  return new_stream(device, device_properties(device).greatest_priority);
}

// Returns it to the pool, unless it still has work, which would delay the next user.
void give_back_stream(const c10::Stream& stream) noexcept {
  FreeStreams& all = free_streams();
  try {
    if (!query_stream(stream)) return;
    std::lock_guard<std::mutex> lock(all.mutex);
    all.streams[stream.device_index()].push_back(stream);
  } catch (const std::exception&) {
    // The stream has failed and is not reused.
  }
}

// ---- Groups

using Tensors = ProcessGroup::Tensors;

c10::Device device_of_all(const Tensors& tensors) {
  std::optional<c10::Device> device;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.defined(), "a tensor that does not exist was given");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "tensors of layout ", tensor.layout(),
                      " are not communicated; convert by to_dense()");
    TORCH_CHECK_VALUE(tensor.is_privateuseone(), "a tensor on ", tensor.device(),
                      " was given to the backend of another device; init_process_group(\"cpu:gloo,",
                      c10::get_privateuse1_backend(), ":outboard\") serves both");
    TORCH_CHECK_VALUE(!device.has_value() || *device == tensor.device(), "tensors on ", *device,
                      " and on ", tensor.device(),
                      " were given, and those of one call lie on one device");
    device = tensor.device();
  }
  TORCH_CHECK_VALUE(device.has_value(), "no tensor was given");
  return *device;
}

}  // namespace

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Backend> cpu_backend, c10d::Store& store,
                           std::string name, std::chrono::milliseconds timeout)
    : Backend(cpu_backend->getRank(), cpu_backend->getSize()),
      cpu_backend_(std::move(cpu_backend)),
      name_(std::move(name)),
      communicator_(Communicator::create(*cpu_backend_, store, &reason_)),
      timeout_(timeout) {
  init();
}

void ProcessGroup::check_one(const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "one tensor is expected, and got ", tensors.size());
}

// PyTorch before 2.15 takes Gloo for the default backend of a group without a named backend,
// although this is its only one, and DistributedDataParallel asks for the default.
void ProcessGroup::correct_default_backend() {
  if (default_checked_.exchange(true)) return;
  try {
    const auto group = c10d::resolve_process_group(name_);
    try {
      group->getDefaultBackend();
    } catch (const c10::Error&) {
      group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
    }
  } catch (const c10::Error&) {
    // An unregistered group needs no default.
  }
}

std::string ProcessGroup::description(const Call& call, uint64_t number) const {
  std::string text = c10::str(c10d::opTypeToString(call.type), " (number ", number, " of group '",
                              name_, "', rank ", rank_, " of ", size_);
  if (call.peer.has_value() && *call.peer >= 0) text += c10::str(", with rank ", *call.peer);
  const Tensors& tensors = call.outputs.empty() ? call.inputs : call.outputs;
  if (!tensors.empty()) {
    text += c10::str(", ", tensors[0].scalar_type(), " of shape ", tensors[0].sizes());
    if (tensors.size() > 1) text += c10::str(" and ", tensors.size() - 1, " more");
  }
  return text + ")";
}

c10::Stream ProcessGroup::kept_stream(c10::Device device, int peer, int direction) {
  const std::tuple<c10::DeviceIndex, int, int> key = {device.index(), peer, direction};
  auto found = streams_.find(key);
  if (found == streams_.end()) found = streams_.emplace(key, take_stream(device.index())).first;
  return found->second;
}

c10::Stream ProcessGroup::copy_stream(c10::Device device, int direction) {
  return kept_stream(device, -2, direction);
}

c10::Stream ProcessGroup::stream_for(c10::Device device, const Call& call) {
  const bool sends = call.type == c10d::OpType::SEND;
  return kept_stream(device, call.peer.value_or(-1), call.peer.has_value() ? (sends ? 1 : 2) : 0);
}

ProcessGroup::WorkPointer ProcessGroup::run(const Call& call, const Body& body) {
  check_fork();
  correct_default_backend();
  // Received values are copied into tensors that may require gradients, as in pipelines.
  const at::NoGradGuard no_grad;
  Tensors all = call.inputs;
  all.insert(all.end(), call.outputs.begin(), call.outputs.end());
  const c10::Device device = all.empty() ? device_of(current_device()) : device_of_all(all);
  std::lock_guard<std::mutex> lock(mutex_);
  sweep();
  {
    std::lock_guard<std::mutex> state_lock(state_->mutex);
    if (state_->failure != nullptr) {
      forget_failure(state_->failure);
      std::rethrow_exception(state_->failure);
    }
  }
  const uint64_t number = ++number_;
  const c10::Stream stream = stream_for(device, call);
  enqueue_wait(stream, current_stream(device.index()));
  // All ranks need one order of collectives, which streams of several devices do not guarantee.
  if (!call.peer.has_value()) {
    if (last_collective_.has_value() && *last_collective_ != stream) {
      enqueue_wait(stream, *last_collective_);
    }
    last_collective_ = stream;
  }

  for (const at::Tensor& tensor : all) tensor.record_stream(stream);
  const std::string words = description(call, number);
  std::optional<Enqueued> enqueued = enqueue_by_driver(call, stream, words);
  taken_[c10d::opTypeToString(call.type)][enqueued.has_value() ? "driver" : "gloo"] += 1;
  if (!enqueued.has_value()) enqueued = enqueue_by_cpu_backend(call, body, stream, words);
  const auto& [parts, streams] = *enqueued;
  parts_.insert(parts_.end(), parts.begin(), parts.end());
  if (coalescing_) {
    coalesced_parts_.insert(coalesced_parts_.end(), parts.begin(), parts.end());
    for (const c10::Stream& used : streams) {
      if (std::find(coalesced_streams_.begin(), coalesced_streams_.end(), used) ==
          coalesced_streams_.end()) {
        coalesced_streams_.push_back(used);
      }
    }
    coalesced_outputs_.insert(coalesced_outputs_.end(), call.outputs.begin(), call.outputs.end());
  }
  return c10::make_intrusive<CollectiveWork>(rank_, call.type, parts, streams, call.outputs);
}

std::map<std::string, std::map<std::string, int64_t>> ProcessGroup::taken() {
  std::lock_guard<std::mutex> lock(mutex_);
  return taken_;
}

void ProcessGroup::sweep() {
  parts_.erase(
      std::remove_if(parts_.begin(), parts_.end(), [](const auto& part) { return part->over(); }),
      parts_.end());
}

void ProcessGroup::startCoalescing() {
  std::lock_guard<std::mutex> lock(mutex_);
  coalescing_ = true;
}

ProcessGroup::WorkPointer ProcessGroup::endCoalescing() {
  std::lock_guard<std::mutex> lock(mutex_);
  coalescing_ = false;
  if (coalesced_streams_.empty()) return nullptr;
  return c10::make_intrusive<CollectiveWork>(
      rank_, c10d::OpType::COALESCED, std::exchange(coalesced_parts_, {}),
      std::exchange(coalesced_streams_, {}), std::exchange(coalesced_outputs_, {}));
}

// ---- Subgroups: `split_group`, used by device meshes if a device is bound

c10::intrusive_ptr<c10d::Backend> ProcessGroup::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                      const std::vector<int>& ranks,
                                                      const c10::intrusive_ptr<Options>& options) {
  // A separate prefix: the CPU backend of the subgroup has the same store.
  const auto own = c10::make_intrusive<c10d::PrefixStore>("outboard", store);
  auto cpu_backend = cpu_backend_->split(own, ranks, options);
  if (cpu_backend == nullptr) return nullptr;  // this rank is not in `ranks`
  return c10::make_intrusive<ProcessGroup>(std::move(cpu_backend), *own, options->group_name,
                                           options->timeout);
}

// ---- End of groups and their work: failures, abort, shutdown

namespace {

// CPU-backend work that was abandoned when a group was aborted, with the parts that own its memory
// and the CPU backend.
struct GivenUp {
  std::mutex mutex;
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> works;
};

GivenUp& given_up() {
  static auto* instance = new GivenUp;
  return *instance;
}

// Not to be called on a thread of the driver.
void forget_given_up() {
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> ended;
  GivenUp& all = given_up();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto open = std::partition(all.works.begin(), all.works.end(),
                                   [](const auto& pair) { return !pair.first->isCompleted(); });
  ended.assign(std::make_move_iterator(open), std::make_move_iterator(all.works.end()));
  all.works.erase(open, all.works.end());
}

}  // namespace

ProcessGroup::~ProcessGroup() {
  forget_given_up();
  // Parts still on queues must not be destroyed on the queues' threads.
  {
    static auto* left = new std::pair<std::mutex, std::vector<std::shared_ptr<HostPart>>>;
    std::lock_guard<std::mutex> lock(left->first);
    auto& parts = left->second;
    for (auto& part : parts_) parts.push_back(std::move(part));
    parts.erase(
        std::remove_if(parts.begin(), parts.end(), [](const auto& part) { return part->over(); }),
        parts.end());
  }
  if (usable_driver() == nullptr) return;
  abort();
  for (const auto& [key, stream] : streams_) give_back_stream(stream);
}

void ProcessGroup::State::tell() {
  if (!std::exchange(told, true)) defer_failure(failure);
}

c10d::ErrorType ProcessGroup::getError() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->failure == nullptr ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

void ProcessGroup::abort() {
  std::exception_ptr aborted;
  try {
    TORCH_CHECK_WITH(DistBackendError, false, "group '", name_, "' was aborted on rank ", rank_);
  } catch (...) {
    aborted = std::current_exception();
  }
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->failure == nullptr) state_->failure = aborted;
    state_->aborted = true;
    for (const WorkPointer& message : state_->messages) message->abort();
  }
  state_->changed.notify_all();
  if (communicator_ != nullptr) communicator_->abort();
  // Parts behind other work of their stream would fail late.
  std::vector<std::shared_ptr<HostPart>> parts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    parts = parts_;
  }
  for (const auto& part : parts) {
    if (part->done()) continue;
    {
      std::lock_guard<std::mutex> lock(state_->mutex);
      state_->tell();
    }
    part->refuse(aborted);
  }
}

void ProcessGroup::finish(const WorkPointer& work) const {
  if (work == nullptr) return;
  const std::shared_ptr<State> state = state_;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = work->getFuture();
  } catch (const c10::Error&) {
    // Messages have no future, but can be aborted.
  }
  if (future == nullptr) {
    {
      std::lock_guard<std::mutex> lock(state->mutex);
      if (state->aborted) std::rethrow_exception(state->failure);
      state->messages.push_back(work);
    }
    std::exception_ptr failure;
    try {
      work->wait();
    } catch (...) {
      failure = std::current_exception();
    }
    std::lock_guard<std::mutex> lock(state->mutex);
    auto& messages = state->messages;
    messages.erase(std::find(messages.begin(), messages.end(), work));
    if (state->aborted) failure = state->failure;
    if (failure != nullptr) std::rethrow_exception(failure);
    return;
  }
  future->addCallback([state](c10::ivalue::Future&) {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->changed.notify_all();
  });
  {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return future->completed() || state->aborted; });
    if (!future->completed()) {
      GivenUp& all = given_up();
      std::lock_guard<std::mutex> all_lock(all.mutex);
      all.works.emplace_back(work, HostPart::running());
      std::rethrow_exception(state->failure);
    }
  }
  work->wait();
}

void ProcessGroup::shutdown() {
  std::vector<std::shared_ptr<HostPart>> parts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    parts.swap(parts_);
  }
  for (const auto& part : parts) part->wait(kNoTimeout);
  abort();
}

}  // namespace outboard::distributed
