// Collectives that reduce.
#include <ATen/Functions.h>

#include "distributed/driver/calls.h"
#include "distributed/process_group.h"
#include "distributed/collectives/reductions.h"
#include "torch_version.h"

namespace outboard::distributed {

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
                   return cpu_backend_->allreduce(carried, mine);
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
          return cpu_backend_->allreduce(carried, mine);
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
                 // A clone on other ranks: the CPU backend may overwrite it, and the tensor must
                 // not change.
                 Tensors carried = {reduction.carried(host)};
                 const bool root = rank_ == options.rootRank;
                 if (!root && carried[0].data_ptr() == host.data_ptr()) {
                   carried[0] = carried[0].clone();
                 }
                 c10d::ReduceOptions mine = options;
                 mine.reduceOp = reduction.op();
                 finish(cpu_backend_->reduce(carried, mine));
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
  finish(cpu_backend_->_reduce_scatter_base(carried_output, carried_input, mine));
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

}  // namespace outboard::distributed
