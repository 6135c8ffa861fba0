// Enqueueing of collectives on streams: by the driver, or by the CPU backend between copies.
#include <ATen/Functions.h>
#include <c10/core/StreamGuard.h>

#include "distributed/process_group.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/recording/recorded_call.h"
#include "transfer/transfer.h"

namespace outboard::distributed {
namespace {

using Tensors = ProcessGroup::Tensors;

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
  const c10::Stream out = one ? stream : copy_stream(stream.device(), 0);
  const c10::Stream back = one ? stream : copy_stream(stream.device(), 1);
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

}  // namespace outboard::distributed
