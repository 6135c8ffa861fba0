// Collectives that move bytes: one rank to all, all to one, all to all.
#include "distributed/driver/calls.h"
#include "distributed/process_group.h"

namespace outboard::distributed {
namespace {

using Tensors = ProcessGroup::Tensors;

Tensors flattened(const std::vector<Tensors>& lists) {
  Tensors all;
  for (const Tensors& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

}  // namespace

ProcessGroup::WorkPointer ProcessGroup::broadcast(Tensors& tensors,
                                                  const c10d::BroadcastOptions& options) {
  check_one(tensors);
  Call call = {c10d::OpType::BROADCAST, {}, tensors, true, [this, options](auto&, auto& outputs) {
                 Tensors bytes = bytes_of(outputs);
                 finish(cpu_backend_->broadcast(bytes, options));
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
                 finish(cpu_backend_->allgather(to, from, options));
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
                   finish(cpu_backend_->_allgather_base(to, from, options));
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
                   finish(cpu_backend_->allgather(to, from, options));
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
                 finish(cpu_backend_->gather(to, from, options));
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
                 finish(cpu_backend_->scatter(to, from, options));
               }};
  call.to_driver = exchanged_by_driver(rank_, {}, {static_cast<int>(options.rootRank)});
  call.timeout = options.timeout;
  return run(std::move(call));
}

}  // namespace outboard::distributed
