// All-to-all, point-to-point messages, and barriers.
#include <ATen/Functions.h>

#include "distributed/driver/calls.h"
#include "distributed/process_group.h"
#include "runtime/driver/device.h"

namespace outboard::distributed {
namespace {

at::Tensor gathered_bytes(const std::vector<HostTensor>& tensors) {
  return at::cat(bytes_of(tensors));
}

// Copies consecutive bytes to the tensors in order.
void spread(const at::Tensor& bytes, const std::vector<HostTensor>& tensors) {
  int64_t begin = 0;
  for (const HostTensor& tensor : tensors) {
    const at::Tensor target = tensor.bytes();
    target.copy_(bytes.narrow(0, begin, target.numel()));
    begin += target.numel();
  }
}

}  // namespace

ProcessGroup::WorkPointer ProcessGroup::alltoall_base(at::Tensor& output, at::Tensor& input,
                                                      std::vector<int64_t>& output_sizes,
                                                      std::vector<int64_t>& input_sizes,
                                                      const c10d::AllToAllOptions& options) {
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(),
                   "tensors of all_to_all have one dtype, and got ", output.scalar_type(), " and ",
                   input.scalar_type());
  c10d::checkSplitSizes(input_sizes, input, size_);
  c10d::checkSplitSizes(output_sizes, output, size_);
  // Sizes count rows; the CPU backend moves their bytes.
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
                 finish(cpu_backend_->alltoall_base(to, from, to_sizes, from_sizes, options));
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
                 finish(cpu_backend_->alltoall_base(to, from, to_sizes, from_sizes, options));
                 spread(to, host_outputs);
               }};
  call.to_driver = exchanged_by_driver(rank_, {}, {});
  call.timeout = options.timeout;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::send(Tensors& tensors, int destination, int tag) {
  check_one(tensors);
  Call call = {
      c10d::OpType::SEND, tensors, {}, false, [this, destination, tag](auto& inputs, auto&) {
        Tensors bytes = bytes_of(inputs);
        finish(cpu_backend_->send(bytes, destination, tag));
      }};
  call.peer = destination;
  return run(std::move(call));
}

ProcessGroup::WorkPointer ProcessGroup::recv(Tensors& tensors, int source, int tag) {
  check_one(tensors);
  Call call = {c10d::OpType::RECV, {}, tensors, false, [this, source, tag](auto&, auto& outputs) {
                 Tensors bytes = bytes_of(outputs);
                 finish(cpu_backend_->recv(bytes, source, tag));
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
        const WorkPointer work = cpu_backend_->recvAnysource(bytes, tag);
        finish(work);
        *source = work->sourceRank();
      }};
  call.peer = -1;
  const WorkPointer work = run(std::move(call));
  static_cast<CollectiveWork*>(work.get())->source = source;
  return work;
}

ProcessGroup::WorkPointer ProcessGroup::barrier(const c10d::BarrierOptions& options) {
  // Synchronizes the whole device: work of other streams counts.
  synchronize_device(current_device());
  const WorkPointer work =
      run({c10d::OpType::BARRIER, {}, {}, false, [this, options](auto&, auto&) {
             finish(cpu_backend_->barrier(options));
           }});
  work->wait(std::chrono::hours(24 * 365));
  return work;
}

}  // namespace outboard::distributed
