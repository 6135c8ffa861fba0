#include "distributed/process_group.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include <algorithm>

#include "distributed/driver/calls.h"
#include "distributed/reductions.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/streams/deferred_failure.h"
#include "torch_version.h"

namespace outboard::distributed {
namespace {

using Tensors = ProcessGroup::Tensors;

// Streams of groups that are gone, by device, for those that come: streams never go.
struct FreeStreams {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::vector<c10::Stream>> streams;
};

FreeStreams& free_streams() {
  static auto* instance = new FreeStreams;
  return *instance;
}

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

// Work of engines that was given up when a group was aborted, with the parts that hold its memory
// and the engine.
struct GivenUp {
  std::mutex mutex;
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> works;
};

GivenUp& given_up() {
  static auto* instance = new GivenUp;
  return *instance;
}

// Not on a thread of a driver's.
void forget_given_up() {
  std::vector<std::pair<ProcessGroup::WorkPointer, std::shared_ptr<HostPart>>> ended;
  GivenUp& all = given_up();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto open = std::partition(all.works.begin(), all.works.end(),
                                   [](const auto& pair) { return !pair.first->isCompleted(); });
  ended.assign(std::make_move_iterator(open), std::make_move_iterator(all.works.end()));
  all.works.erase(open, all.works.end());
}

void check_one(const Tensors& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "one tensor is expected, and got ", tensors.size());
}

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

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

at::Tensor gathered_bytes(const std::vector<HostTensor>& tensors) {
  return at::cat(bytes_of(tensors));
}

// Divides bytes among tensors, in their order.
void spread(const at::Tensor& bytes, const std::vector<HostTensor>& tensors) {
  int64_t begin = 0;
  for (const HostTensor& tensor : tensors) {
    const at::Tensor target = tensor.bytes();
    target.copy_(bytes.narrow(0, begin, target.numel()));
    begin += target.numel();
  }
}

}  // namespace

ProcessGroup::ProcessGroup(c10::intrusive_ptr<c10d::Backend> engine, c10d::Store& store,
                           std::string name, std::chrono::milliseconds timeout)
    : Backend(engine->getRank(), engine->getSize()),
      engine_(std::move(engine)),
      name_(std::move(name)),
      communicator_(Communicator::create(*engine_, store, &reason_)),
      timeout_(timeout) {
  init();
}

ProcessGroup::~ProcessGroup() {
  forget_given_up();
  // What queues still hold must not end on their threads.
  {
    static auto* left = new std::pair<std::mutex, std::vector<std::shared_ptr<HostPart>>>;
    std::lock_guard<std::mutex> lock(left->first);
    auto& parts = left->second;
    for (auto& part : parts_) parts.push_back(std::move(part));
    parts.erase(
        std::remove_if(parts.begin(), parts.end(), [](const auto& part) { return part->over(); }),
        parts.end());
  }
  if (in_bad_fork() || driver_finalized()) return;
  abort();
  FreeStreams& all = free_streams();
  std::lock_guard<std::mutex> lock(all.mutex);
  for (const auto& [key, stream] : streams_) {
    // One that still waits for others would hold up the next group.
    try {
      if (query_stream(stream)) all.streams[std::get<0>(key)].push_back(stream);
    } catch (const std::exception&) {
    }
  }
}

// PyTorch before 2.15 takes Gloo for the default backend of a group that was made without naming
// one, although it has made this one alone, and DistributedDataParallel asks for the default.
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
    // A group that nobody registered: its users do not ask for a default.
  }
}

// ---- Enqueueing ----

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

ProcessGroup::WorkPointer ProcessGroup::run(Call call) {
  check_fork();
  correct_default_backend();
  // What is received is copied into tensors that may want gradients, as a pipeline's do.
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
  Event begin;
  begin.record(current_stream(device.index()));
  begin.block(stream);

  for (const at::Tensor& tensor : all) tensor.record_stream(stream);
  const std::string words = description(call, number);
  std::optional<Enqueued> enqueued = enqueue_by_driver(call, stream, words);
  taken_[c10d::opTypeToString(call.type)][enqueued.has_value() ? "driver" : "gloo"] += 1;
  if (!enqueued.has_value()) enqueued = enqueue_by_engine(call, stream, words);
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
  bool first = false;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    first = state_->failure == nullptr;
    if (first) state_->failure = aborted;
    state_->aborted = true;
    for (const WorkPointer& message : state_->messages) message->abort();
  }
  state_->changed.notify_all();
  if (communicator_ != nullptr) communicator_->abort();
  // Those behind other work of their stream would learn of it late.
  std::vector<std::shared_ptr<HostPart>> parts;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    parts = parts_;
  }
  for (const auto& part : parts) {
    if (part->done()) continue;
    part->refuse(aborted);
    // Whoever waits for the stream only learns of it, too; of an earlier failure he has.
    if (std::exchange(first, false)) defer_failure(aborted);
  }
}

void ProcessGroup::finish(const WorkPointer& work) const {
  if (work == nullptr) return;
  const std::shared_ptr<State> state = state_;
  c10::intrusive_ptr<c10::ivalue::Future> future;
  try {
    future = work->getFuture();
  } catch (const c10::Error&) {
    // Messages have none, but can be ended.
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

// ---- Reductions ----

void ProcessGroup::reduce_on_host(
    const std::vector<HostTensor>& tensors, const c10d::ReduceOp& op,
    const std::function<WorkPointer(Tensors&, const c10d::ReduceOp&)>& call) {
  for (const HostTensor& tensor : tensors) {
    const at::Tensor& host = tensor.tensor();
    const Reduction reduction(host.scalar_type(), op, size_);
    Tensors carried = {reduction.carried(host)};
    finish(call(carried, reduction.op()));
    reduction.finish(host, carried[0]);
  }
}

ProcessGroup::WorkPointer ProcessGroup::allreduce(Tensors& tensors,
                                                  const c10d::AllreduceOptions& options) {
  check_one(tensors);
  if (tensors[0].defined() && tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
  const Reduction checked(tensors[0].scalar_type(), options.reduceOp, size_);
  Call call = {c10d::OpType::ALLREDUCE, {}, tensors, true, [this, options](auto&, auto& outputs) {
                 reduce_on_host(outputs, options.reduceOp, [&](Tensors& carried, auto& op) {
                   c10d::AllreduceOptions mine = options;
                   mine.reduceOp = op;
                   return engine_->allreduce(carried, mine);
                 });
               }};
  call.to_driver = reduced_by_driver(OB_COMMUNICATION_ALL_REDUCE, options.reduceOp);
  call.parts = Call::kFlat;
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  for (const at::Tensor& tensor : tensors) {
    const Reduction checked(tensor.scalar_type(), options.reduceOp, size_);
  }
  Call call = {
      c10d::OpType::ALLREDUCE_COALESCED, {}, tensors, true, [this, options](auto&, auto& outputs) {
        reduce_on_host(outputs, options.reduceOp, [&](Tensors& carried, auto& op) {
          c10d::AllreduceOptions mine = options;
          mine.reduceOp = op;
          return engine_->allreduce(carried, mine);
        });
      }};
  call.to_driver = reduced_by_driver(OB_COMMUNICATION_ALL_REDUCE, options.reduceOp);
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::reduce(Tensors& tensors,
                                               const c10d::ReduceOptions& options) {
  check_one(tensors);
  const Reduction checked(tensors[0].scalar_type(), options.reduceOp, size_);
  Call call = {c10d::OpType::REDUCE, {}, tensors, true, [this, options](auto&, auto& outputs) {
                 const at::Tensor& host = outputs[0].tensor();
                 const Reduction reduction(host.scalar_type(), options.reduceOp, size_);
                 // The engine may use those of other ranks as it likes, and they keep their values.
                 Tensors carried = {reduction.carried(host)};
                 const bool root = rank_ == options.rootRank;
                 if (!root && carried[0].data_ptr() == host.data_ptr()) {
                   carried[0] = carried[0].clone();
                 }
                 c10d::ReduceOptions mine = options;
                 mine.reduceOp = reduction.op();
                 finish(engine_->reduce(carried, mine));
                 if (root) reduction.finish(host, carried[0]);
               }};
  call.to_driver = reduced_by_driver(OB_COMMUNICATION_REDUCE, options.reduceOp,
                                     static_cast<int>(options.rootRank));
  call.timeout = options.timeout;
  return run(std::move(call));
}

void ProcessGroup::scatter_reduced(const at::Tensor& output, const at::Tensor& input,
                                   const c10d::ReduceScatterOptions& options) {
  const Reduction reduction(output.scalar_type(), options.reduceOp, size_);
  at::Tensor carried_input = reduction.carried(input);
  at::Tensor carried_output = reduction.carried_result(output);
  c10d::ReduceScatterOptions mine = options;
  mine.reduceOp = reduction.op();
  finish(engine_->_reduce_scatter_base(carried_output, carried_input, mine));
  reduction.finish(output, carried_output);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter(Tensors& outputs,
                                                       std::vector<Tensors>& inputs,
                                                       const c10d::ReduceScatterOptions& options) {
  check_one(outputs);
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_),
                    "reduce_scatter takes a list with a tensor for each of the ", size_, " ranks");
  for (const at::Tensor& input : inputs[0]) {
    TORCH_CHECK_VALUE(input.sizes() == inputs[0][rank_].sizes() &&
                          input.scalar_type() == outputs[0].scalar_type() &&
                          input.numel() == outputs[0].numel(),
                      "tensors of reduce_scatter have the shape and dtype of its output");
  }
  const Reduction checked(outputs[0].scalar_type(), options.reduceOp, size_);
  Call call = {c10d::OpType::REDUCE_SCATTER, inputs[0], outputs, false,
               [this, options](auto& host_inputs, auto& host_outputs) {
                 Tensors parts;
                 for (const HostTensor& input : host_inputs) {
                   parts.push_back(input.tensor().reshape({-1}));
                 }
                 scatter_reduced(host_outputs[0].tensor().view({-1}), at::cat(parts), options);
               }};
  call.to_driver = list_scattered_by_driver(options.reduceOp);
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "as many inputs as outputs are expected");
  for (size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK_VALUE(
        inputs[i].numel() == outputs[i].numel() * size_ &&
            inputs[i].scalar_type() == outputs[i].scalar_type(),
        "input tensor must be the same size as output size times world size, and have "
        "its dtype");
    const Reduction checked(outputs[i].scalar_type(), options.reduceOp, size_);
  }
  c10d::OpType type = c10d::OpType::_REDUCE_SCATTER_BASE;
#if OUTBOARD_TORCH_AT_LEAST(12)
  if (outputs.size() != 1) type = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#endif
  Call call = {type, inputs, outputs, false,
               [this, options](auto& host_inputs, auto& host_outputs) {
                 for (size_t i = 0; i < host_outputs.size(); ++i) {
                   scatter_reduced(host_outputs[i].tensor().view({-1}),
                                   host_inputs[i].tensor().view({-1}), options);
                 }
               }};
  call.to_driver = reduced_by_driver(OB_COMMUNICATION_REDUCE_SCATTER, options.reduceOp);
  if (outputs.size() == 1) call.parts = Call::kByRank;
  call.timeout = options.timeout;
  return run(std::move(call));
}

// ---- What moves bytes ----

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  check_one(tensors);
  Call call = {c10d::OpType::BROADCAST, {}, tensors, true, [this, options](auto&, auto& outputs) {
                 Tensors bytes = bytes_of(outputs);
                 finish(engine_->broadcast(bytes, options));
               }};
  call.to_driver = broadcast_by_driver(static_cast<int>(options.rootRank), rank_);
  call.parts = Call::kFlat;
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                  const c10d::AllgatherOptions& options) {
  check_one(inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_),
                    "all_gather takes a list with a tensor for each of the ", size_, " ranks");
  for (const at::Tensor& output : outputs[0]) {
    TORCH_CHECK_VALUE(output.scalar_type() == inputs[0].scalar_type(),
                      "tensors of all_gather have one dtype, and got ", output.scalar_type(),
                      " and ", inputs[0].scalar_type());
  }
  Call call = {c10d::OpType::ALLGATHER, inputs, outputs[0], false,
               [this, options](auto& host_inputs, auto& host_outputs) {
                 std::vector<Tensors> to = {bytes_of(host_outputs)};
                 Tensors from = bytes_of(host_inputs);
                 finish(engine_->allgather(to, from, options));
               }};
  call.to_driver = list_gathered_by_driver(size_);
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                        const c10d::AllgatherOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::allgather_into_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "as many inputs as outputs are expected");
  for (size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK_VALUE(outputs[i].numel() == inputs[i].numel() * size_,
                      "output tensor size must be equal to world_size times input tensor size");
    TORCH_CHECK_TYPE(outputs[i].scalar_type() == inputs[i].scalar_type(),
                     "output tensor must have the same type as input tensor");
  }
  const c10d::OpType type =
      outputs.size() == 1 ? c10d::OpType::_ALLGATHER_BASE : c10d::OpType::ALLGATHER_COALESCED;
  Call call = {type, inputs, outputs, false,
               [this, options](auto& host_inputs, auto& host_outputs) {
                 for (size_t i = 0; i < host_outputs.size(); ++i) {
                   at::Tensor to = host_outputs[i].bytes(), from = host_inputs[i].bytes();
                   finish(engine_->_allgather_base(to, from, options));
                 }
               }};
  call.to_driver = gathered_by_driver();
  if (outputs.size() == 1) call.parts = Call::kByRank;
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::allgather_coalesced(std::vector<Tensors>& outputs,
                                                            Tensors& inputs,
                                                            const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_),
                    "all_gather takes a list for each of the ", size_, " ranks");
  for (const Tensors& list : outputs) {
    TORCH_CHECK_VALUE(list.size() == inputs.size(), "each list has as many tensors as the inputs");
  }
  const size_t count = inputs.size();
  Call call = {c10d::OpType::ALLGATHER_COALESCED, inputs, flattened(outputs), false,
               [this, options, count](auto& host_inputs, auto& host_outputs) {
                 for (size_t i = 0; i < count; ++i) {
                   std::vector<Tensors> to(1);
                   for (int rank = 0; rank < size_; ++rank) {
                     to[0].push_back(host_outputs[rank * count + i].bytes());
                   }
                   Tensors from = {host_inputs[i].bytes()};
                   finish(engine_->allgather(to, from, options));
                 }
               }};
  call.to_driver = list_gathered_by_driver(size_);
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                               const c10d::GatherOptions& options) {
  check_one(inputs);
  const bool root = rank_ == options.rootRank;
  TORCH_CHECK_VALUE(root ? outputs.size() == 1 && outputs[0].size() == static_cast<size_t>(size_)
                         : outputs.empty(),
                    "gather takes a list with a tensor for each of the ", size_,
                    " ranks on the root, and none elsewhere");
  Call call = {c10d::OpType::GATHER, inputs, flattened(outputs), false,
               [this, options, root](auto& host_inputs, auto& host_outputs) {
                 std::vector<Tensors> to;
                 if (root) to.push_back(bytes_of(host_outputs));
                 Tensors from = bytes_of(host_inputs);
                 finish(engine_->gather(to, from, options));
               }};
  call.to_driver = exchanged_by_driver(rank_, {static_cast<int>(options.rootRank)}, {});
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                const c10d::ScatterOptions& options) {
  check_one(outputs);
  const bool root = rank_ == options.rootRank;
  TORCH_CHECK_VALUE(
      root ? inputs.size() == 1 && inputs[0].size() == static_cast<size_t>(size_) : inputs.empty(),
      "scatter takes a list with a tensor for each of the ", size_,
      " ranks on the root, and none elsewhere");
  Call call = {c10d::OpType::SCATTER, flattened(inputs), outputs, false,
               [this, options, root](auto& host_inputs, auto& host_outputs) {
                 std::vector<Tensors> from;
                 if (root) from.push_back(bytes_of(host_inputs));
                 Tensors to = bytes_of(host_outputs);
                 finish(engine_->scatter(to, from, options));
               }};
  call.to_driver = exchanged_by_driver(rank_, {}, {static_cast<int>(options.rootRank)});
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_sizes,
                                                      std::vector<int64_t>& input_sizes,
                                                      const c10d::AllToAllOptions& options) {
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(),
                   "tensors of all_to_all have one dtype, and got ", output.scalar_type(), " and ",
                   input.scalar_type());
  c10d::checkSplitSizes(input_sizes, input, size_);
  c10d::checkSplitSizes(output_sizes, output, size_);
  // Sizes are of rows; the engine moves their bytes.
  auto times = [this](int64_t item, const at::Tensor& tensor, std::vector<int64_t> sizes) {
    const int64_t rows = tensor.dim() == 0 ? 1 : tensor.size(0);
    const int64_t row = rows == 0 ? 0 : tensor.numel() / rows * item;
    if (sizes.empty()) sizes.assign(size_, rows / size_);
    for (int64_t& size : sizes) size *= row;
    return sizes;
  };
  const int64_t item = input.element_size();
  Call call = {c10d::OpType::ALLTOALL_BASE,
               {input},
               {output},
               false,
               [this, options, to_sizes = times(item, output, output_sizes),
                from_sizes = times(item, input, input_sizes)](auto& inputs, auto& outputs) mutable {
                 at::Tensor to = outputs[0].bytes(), from = inputs[0].bytes();
                 finish(engine_->alltoall_base(to, from, to_sizes, from_sizes, options));
               }};
  call.to_driver =
      split_by_driver(rank_, times(1, input, input_sizes), times(1, output, output_sizes));
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::alltoall(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<size_t>(size_) && inputs.size() == outputs.size(),
                    "all_to_all takes lists with a tensor for each of the ", size_, " ranks");
  Call call = {c10d::OpType::ALLTOALL, inputs, outputs, false,
               [this, options](auto& host_inputs, auto& host_outputs) {
                 std::vector<int64_t> from_sizes, to_sizes;
                 int64_t total = 0;
                 for (const HostTensor& input : host_inputs) {
                   from_sizes.push_back(static_cast<int64_t>(input.tensor().nbytes()));
                 }
                 for (const HostTensor& output : host_outputs) {
                   to_sizes.push_back(static_cast<int64_t>(output.tensor().nbytes()));
                   total += to_sizes.back();
                 }
                 at::Tensor from = gathered_bytes(host_inputs);
                 at::Tensor to = at::empty({total}, from.options());
                 finish(engine_->alltoall_base(to, from, to_sizes, from_sizes, options));
                 spread(to, host_outputs);
               }};
  call.to_driver = exchanged_by_driver(rank_, {}, {});
  call.timeout = options.timeout;
  return run(std::move(call));
}

// ---- From rank to rank ----

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int destination, int tag) {
  check_one(tensors);
  Call call = {
      c10d::OpType::SEND, tensors, {}, false, [this, destination, tag](auto& inputs, auto&) {
        Tensors bytes = bytes_of(inputs);
        finish(engine_->send(bytes, destination, tag));
      }};
  call.peer = destination;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int source, int tag) {
  check_one(tensors);
  Call call = {c10d::OpType::RECV, {}, tensors, false, [this, source, tag](auto&, auto& outputs) {
                 Tensors bytes = bytes_of(outputs);
                 finish(engine_->recv(bytes, source, tag));
               }};
  call.peer = source;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::recvAnysource(Tensors& tensors, int tag) {
  check_one(tensors);
  auto source = std::make_shared<int>(-1);
  Call call = {
      c10d::OpType::RECVANYSOURCE, {}, tensors, false, [this, source, tag](auto&, auto& outputs) {
        Tensors bytes = bytes_of(outputs);
        const WorkPointer work = engine_->recvAnysource(bytes, tag);
        finish(work);
        *source = work->sourceRank();
      }};
  call.peer = -1;
  const WorkPointer work = run(std::move(call));
  static_cast<CollectiveWork*>(work.get())->source = source;
  return work;
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  // For the whole device: work of other streams counts.
  synchronize_device(current_device());
  const WorkPointer work =
      run({c10d::OpType::BARRIER, {}, {}, false, [this, options](auto&, auto&) {
             finish(engine_->barrier(options));
           }});
  work->wait(std::chrono::hours(24 * 365));
  return work;
}

}  // namespace outboard::distributed
