#include "distributed/process_group.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_failure.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/recording/recording.h"
#include "transfer/copy.h"

namespace outboard::distributed {
namespace {

// ---- Pool of streams of destroyed groups, for new ones: streams are never destroyed

struct FreeStreams {
  std::map<c10::DeviceIndex, std::vector<c10::Stream>> streams;
};

// A stream of the highest priority, exclusive to the caller.
c10::Stream take_stream(c10::DeviceIndex device) {
  {
    const Locked<FreeStreams> all;
    auto& free = all->streams[device];
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
  try {
    if (!query_stream(stream)) return;
    Locked<FreeStreams>()->streams[stream.device_index()].push_back(stream);
  } catch (const std::exception&) {
    // The stream has failed and is not reused.
  }
}

// ---- Groups

using Tensors = ProcessGroup::Tensors;

c10::Device device_of_all(const Tensors& tensors) {
  std::optional<c10::Device> device;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK_VALUE(tensor.defined(), "a collective was given an undefined tensor");
    TORCH_CHECK_VALUE(tensor.layout() == at::kStrided, "tensors of layout ", tensor.layout(),
                      " cannot be sent; convert them with to_dense()");
    TORCH_CHECK_VALUE(tensor.is_privateuseone(), "a tensor on ", tensor.device(),
                      " was given to the backend of another device; init_process_group(\"cpu:gloo,",
                      c10::get_privateuse1_backend(), ":outboard\") serves both");
    TORCH_CHECK_VALUE(!device.has_value() || *device == tensor.device(),
                      "a collective takes tensors of one device, and got ", *device, " and ",
                      tensor.device());
    device = tensor.device();
  }
  TORCH_CHECK_VALUE(device.has_value(), "a collective was given no tensor");
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
  TORCH_CHECK_VALUE(tensors.size() == 1, "this collective takes one tensor, and got ",
                    tensors.size());
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
  std::erase_if(parts_, [](const auto& part) { return part->over(); });
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

// ---- Enqueueing on streams: by the driver, or by the CPU backend between copies

namespace {

void run_part(void* argument) {
  auto* part = static_cast<std::shared_ptr<HostPart>*>(argument);
  (*part)->run();
  delete part;
}

void enqueue(const c10::Stream& stream, const std::shared_ptr<HostPart>& part) {
  StreamState& state = stream_state(stream);
  auto* argument = new std::shared_ptr<HostPart>(part);
  const ob_status status = OB_ASK(host_callback, state.queue, &run_part, argument);
  if (status != OB_OK) delete argument;
  check_status(status, "host_callback");
  state.mark_submitted();
}

// The tensor itself if the driver can use it, else a dense tensor on `device`.
at::Tensor dense_on(c10::DeviceIndex device, const at::Tensor& tensor, bool read) {
  if (tensor.device().index() == device && tensor.is_contiguous() && !tensor.is_conj() &&
      !tensor.is_neg()) {
    return tensor;
  }
  at::Tensor dense = at::empty(tensor.sizes(), tensor.options().device(device_of(device)));
  if (read) dense.copy_(tensor, /*non_blocking=*/true);
  return dense;
}

// Bytes of a collective on one rank.
uint64_t bytes_of_larger(const Tensors& inputs, const Tensors& outputs) {
  const auto sum = [](const Tensors& tensors) {
    uint64_t bytes = 0;
    for (const at::Tensor& tensor : tensors) bytes += tensor.nbytes();
    return bytes;
  };
  return std::max(sum(inputs), sum(outputs));
}

// A collective below twice this size is one piece.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

}  // namespace

std::shared_ptr<HostPart> ProcessGroup::guarded_part(std::function<void()> body,
                                                     const std::string& description) const {
  return std::make_shared<HostPart>([state = state_, body = std::move(body), description] {
    {
      std::lock_guard<std::mutex> state_lock(state->mutex);
      if (state->failure != nullptr) {
        state->tell();
        std::rethrow_exception(state->failure);
      }
    }
    try {
      body();
    } catch (...) {
      // The state of other ranks is unknown after this: it is the group's failure, and all later
      // work fails with it.
      std::lock_guard<std::mutex> state_lock(state->mutex);
      if (state->failure == nullptr) {
        state->failure = described(std::current_exception(), description);
      }
      state->tell();
      std::rethrow_exception(state->failure);
    }
  });
}

std::optional<ProcessGroup::Enqueued> ProcessGroup::enqueue_by_driver(
    const Call& call, const c10::Stream& stream, const std::string& description) {
  if (communicator_ == nullptr || !call.to_driver) return std::nullopt;
  const c10::DeviceIndex device = communicator_->device();
  const bool elsewhere = device != stream.device_index();
  const c10::Stream theirs = elsewhere ? stream_for(device_of(device), call) : stream;
  if (elsewhere) enqueue_wait(theirs, stream);
  const c10::StreamGuard guard(stream);
  const c10::StreamGuard on_device(theirs);
  Tensors inputs, outputs;
  for (const at::Tensor& tensor : call.inputs) inputs.push_back(dense_on(device, tensor, true));
  for (const at::Tensor& tensor : call.outputs) {
    outputs.push_back(dense_on(device, tensor, call.in_place));
  }
  Communications wanted;
  call.to_driver(inputs, outputs, wanted);
  const auto timeout = call.timeout == c10d::kUnsetTimeout ? timeout_.load() : call.timeout;
  RecordedWork record(stream_state(theirs), ActivityKind::kLibraryCall, "communicate",
                      c10d::opTypeToString(call.type).c_str(), bytes_of_larger(inputs, outputs));
  if (!communicator_->enqueue(theirs, wanted, timeout)) return std::nullopt;
  record.enqueued();
  const auto part =
      guarded_part([communicator = communicator_] { communicator->check(); }, description);
  enqueue(theirs, part);
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].is_same(call.outputs[i])) {
      call.outputs[i].copy_(outputs[i], /*non_blocking=*/true);
    }
  }
  if (elsewhere) enqueue_wait(stream, theirs);
  return Enqueued{{part}, {stream}};
}

std::vector<ProcessGroup::Piece> ProcessGroup::pieces_of(const Call& call) const {
  const std::vector<Piece> whole = {{call.inputs, call.outputs}};
  if (call.parts == Call::kWhole) return whole;
  const at::Tensor& output = call.outputs[0];
  for (const Tensors* tensors : {&call.inputs, &call.outputs}) {
    for (const at::Tensor& tensor : *tensors) {
      if (!tensor.is_contiguous() || tensor.is_conj() || tensor.is_neg()) return whole;
    }
  }
  if (shares_host_memory(output.device().index())) return whole;
  // Elements of one rank's part, or of all.
  at::Tensor given, got = output.view({-1});
  int64_t elements = output.numel();
  if (call.parts == Call::kByRank) {
    given = call.inputs[0].view({-1});
    elements = std::min(given.numel(), got.numel());
    if (given.numel() != elements) given = given.view({size_, elements});
    if (got.numel() != elements) got = got.view({size_, elements});
  }
  const int64_t ranks = call.parts == Call::kByRank ? size_ : 1;
  const int64_t bytes = elements * ranks * output.element_size();
  if (bytes < 2 * kPieceBytes) return whole;
  const int64_t count = bytes / kPieceBytes;
  const int64_t size = (elements + count - 1) / count;
  std::vector<Piece> pieces;
  for (int64_t begin = 0; begin < elements; begin += size) {
    const int64_t length = std::min(size, elements - begin);
    Piece piece;
    if (given.defined()) piece.inputs = {given.narrow(-1, begin, length)};
    piece.outputs = {got.narrow(-1, begin, length)};
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Pipelined: copies of the next and the previous piece overlap the CPU backend's work.
ProcessGroup::Enqueued ProcessGroup::enqueue_by_cpu_backend(const Call& call, const Body& body,
                                                            const c10::Stream& stream,
                                                            const std::string& description) {
  const std::vector<Piece> pieces = pieces_of(call);
  const bool one = pieces.size() == 1;
  const c10::Stream out = one ? stream : kept_stream(stream.device(), -2, 0);
  const c10::Stream back = one ? stream : kept_stream(stream.device(), -2, 1);
  if (!one) {
    // The input may be the output of an earlier collective.
    enqueue_wait(out, stream);
    for (const Tensors* tensors : {&call.inputs, &call.outputs}) {
      for (const at::Tensor& tensor : *tensors) {
        tensor.record_stream(out);
        tensor.record_stream(back);
      }
    }
  }
  Enqueued enqueued;
  for (const Piece& piece : pieces) {
    std::vector<HostTensor> inputs, outputs;
    {
      const c10::StreamGuard guard(out);
      inputs = on_host(piece.inputs, /*read=*/true);
      outputs = on_host(piece.outputs, call.in_place);
    }
    if (!one) enqueue_wait(stream, out);
    const auto part =
        guarded_part([cpu_backend = cpu_backend_, body, inputs, outputs] { body(inputs, outputs); },
                     description);
    enqueued.parts.push_back(part);
    {
      RecordedWork record(stream_state(stream), ActivityKind::kLibraryCall, "host_callback",
                          c10d::opTypeToString(call.type).c_str(),
                          bytes_of_larger(piece.inputs, piece.outputs));
      enqueue(stream, part);
      record.enqueued();
    }
    if (!one) enqueue_wait(back, stream);
    const c10::StreamGuard guard(back);
    write_back(outputs);
  }
  if (!one) enqueue_wait(stream, back);
  enqueued.streams = {stream};
  return enqueued;
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
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> works;
};

// Parts of destroyed groups that are still on queues: they must not be destroyed on the queues'
// threads.
struct LeftParts {
  std::vector<std::shared_ptr<HostPart>> parts;
};

// Not to be called on a thread of the driver.
void forget_given_up() {
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> ended;
  const Locked<GivenUp> all;
  const auto open = std::partition(all->works.begin(), all->works.end(),
                                   [](const auto& pair) { return !pair.first->isCompleted(); });
  ended.assign(std::make_move_iterator(open), std::make_move_iterator(all->works.end()));
  all->works.erase(open, all->works.end());
}

}  // namespace

ProcessGroup::~ProcessGroup() {
  forget_given_up();
  {
    const Locked<LeftParts> left;
    for (auto& part : parts_) left->parts.push_back(std::move(part));
    std::erase_if(left->parts, [](const auto& part) { return part->over(); });
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
  const std::exception_ptr aborted = std::make_exception_ptr(
      c10::DistBackendError({__func__, __FILE__, uint32_t{__LINE__}},
                            c10::str("group '", name_, "' was aborted on rank ", rank_)));
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
    part->finish(aborted);
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
      Locked<GivenUp>()->works.emplace_back(work, HostPart::running());
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
