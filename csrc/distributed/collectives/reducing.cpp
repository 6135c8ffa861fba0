// Collectives that reduce.
#include <ATen/Functions.h>
#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/library.h>

#include <chrono>

#include "distributed/communicator.h"
#include "distributed/process_group.h"
#include "runtime/streams/stream.h"
#include "torch_version.h"

namespace outboard::distributed {
namespace {

// ---- Reductions of every dtype by a CPU backend that supports some of them

// A reduction for the CPU backend: dtype, operation, and the steps before and after.
class Reduction {
 public:
  // `ranks`: size of the group, for averages. Raises TypeError for an unsupported combination of
  // dtype and operation.
  Reduction(at::ScalarType dtype, const c10d::ReduceOp& op, int64_t ranks);

  // The CPU backend's tensor for a dense input on the host: the input itself if no conversion is
  // needed, so a reduction in place stays in place.
  at::Tensor carried(const at::Tensor& input) const {
    at::Tensor given = complex_ ? at::view_as_real(input) : input;
    if (given.scalar_type() != carrier_) given = given.to(carrier_);
    if (factor_.defined()) {
      // Out of place: the input may be the caller's memory.
      given = given.mul(factor_.to(given.scalar_type()));
    }
    return given;
  }
  // The same for an output that is not read.
  at::Tensor carried_result(const at::Tensor& output) const {
    const at::Tensor real = complex_ ? at::view_as_real(output) : output;
    return real.scalar_type() == carrier_ ? real
                                          : at::empty_like(real, real.options().dtype(carrier_));
  }
  // Converts the CPU backend's result to `output`.
  void finish(const at::Tensor& output, const at::Tensor& carried) const {
    if (divisor_ != 1) {
      if (at::isFloatingType(carried.scalar_type())) {
        carried.div_(divisor_);
      } else {
        carried.div_(divisor_, "trunc");
      }
    }
    const at::Tensor target = complex_ ? at::view_as_real(output) : output;
    if (carried.data_ptr() != target.data_ptr()) target.copy_(carried);
  }

  const c10d::ReduceOp& op() const { return cpu_op_; }

 private:
  at::ScalarType carrier_;  // the dtype of the CPU backend
  bool complex_ = false;    // as pairs of real numbers
  c10d::ReduceOp cpu_op_;
  int64_t divisor_ = 1;
  at::Tensor factor_;
};

using c10d::ReduceOp;
#if OUTBOARD_TORCH_AT_LEAST(13)
using Factor = c10d::PreMulSumSupplement;
#else
using Factor = c10d::NCCLPreMulSumSupplement;
#endif

// Dtypes of Gloo. Other integers are reduced in wider ones, whose lower bits are equal.
at::ScalarType carrier_of(at::ScalarType dtype) {
  if (at::isComplexType(dtype)) return at::toRealValueType(dtype);
  if (c10::isFloat8Type(dtype)) return at::kFloat;
  switch (dtype) {
    case at::kBool:
      return at::kByte;
    case at::kShort:
    case at::kUInt16:
      return at::kInt;
    case at::kUInt32:
    case at::kUInt64:
      return at::kLong;
    default:
      return dtype;
  }
}

// The operation on bytes that are 0 or 1.
ReduceOp::RedOpType logical(ReduceOp::RedOpType op) {
  switch (op) {
    case ReduceOp::SUM:
    case ReduceOp::BOR:
      return ReduceOp::MAX;
    case ReduceOp::PRODUCT:
    case ReduceOp::BAND:
      return ReduceOp::MIN;
    default:
      return op;
  }
}

bool is_bitwise(ReduceOp::RedOpType op) {
  return op == ReduceOp::BAND || op == ReduceOp::BOR || op == ReduceOp::BXOR;
}

}  // namespace

Reduction::Reduction(at::ScalarType dtype, const ReduceOp& op, int64_t ranks)
    : carrier_(carrier_of(dtype)), complex_(at::isComplexType(dtype)) {
  ReduceOp::RedOpType kind = op.op_;
  TORCH_CHECK_TYPE(
      !complex_ || kind == ReduceOp::SUM || kind == ReduceOp::AVG || kind == ReduceOp::PREMUL_SUM,
      "complex numbers are reduced to sums and averages only; reduce their real and "
      "imaginary parts by torch.view_as_real");
  TORCH_CHECK_TYPE(!is_bitwise(kind) || at::isIntegralType(dtype, /*includeBool=*/true),
                   "bitwise reductions take integers and bool, and got ", dtype);
  if (kind == ReduceOp::AVG) {
    TORCH_CHECK_TYPE(dtype != at::kBool, "bool has no average; convert it to a number first");
    divisor_ = ranks;
    kind = ReduceOp::SUM;
  }
  if (kind == ReduceOp::PREMUL_SUM) {
    const auto* factor = dynamic_cast<const Factor*>(op.supplement_.get());
    TORCH_CHECK_VALUE(factor != nullptr, "PREMUL_SUM was given without a factor");
    factor_ = factor->tensor_factor.defined()
                  ? factor->tensor_factor.cpu()
                  : at::scalar_tensor(factor->double_factor, at::kDouble);
    kind = ReduceOp::SUM;
  }
  if (dtype == at::kBool) kind = logical(kind);
  cpu_op_ = ReduceOp(kind);
}

// ---- Dense tensors

namespace {

using Tensors = ProcessGroup::Tensors;

// As many outputs as inputs; in place without inputs.
DriverCall reduced_by_driver(ob_communication_kind kind, const c10d::ReduceOp& op, int root = 0) {
  return [kind, op, root](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      wanted.reduce(kind, inputs.empty() ? outputs[i] : inputs[i], outputs[i], op, root);
    }
  };
}

// One input per rank.
DriverCall list_scattered_by_driver(const c10d::ReduceOp& op) {
  return [op](const Tensors& inputs, const Tensors& outputs, Communications& wanted) {
    Tensors parts;
    for (const at::Tensor& input : inputs) parts.push_back(input.view({-1}));
    const at::Tensor whole = at::cat(parts);
    wanted.reduce(OB_COMMUNICATION_REDUCE_SCATTER, whole, outputs[0], op);
    // Keeps the tensor alive until it is enqueued; then the stream does.
    wanted.finish = [whole] {};
  };
}

}  // namespace

ProcessGroup::WorkPointer ProcessGroup::reduce_all(c10d::OpType type, const Tensors& tensors,
                                                   const c10d::AllreduceOptions& options) {
  for (const at::Tensor& tensor : tensors) {
    const Reduction checked(tensor.scalar_type(), options.reduceOp, size_);
  }
  return run({.type = type,
              .outputs = tensors,
              .in_place = true,
              .to_driver = reduced_by_driver(OB_COMMUNICATION_ALL_REDUCE, options.reduceOp),
              .parts = tensors.size() == 1 ? Call::kFlat : Call::kWhole,
              .timeout = options.timeout},
             [this, options](auto&, auto& outputs) {
               for (const HostTensor& output : outputs) {
                 const at::Tensor& host = output.tensor();
                 const Reduction reduction(host.scalar_type(), options.reduceOp, size_);
                 Tensors carried = {reduction.carried(host)};
                 c10d::AllreduceOptions mine = options;
                 mine.reduceOp = reduction.op();
                 finish(cpu_backend_->allreduce(carried, mine));
                 reduction.finish(host, carried[0]);
               }
             });
}

ProcessGroup::WorkPointer ProcessGroup::allreduce(Tensors& tensors,
                                                  const c10d::AllreduceOptions& options) {
  check_one(tensors);
  if (tensors[0].defined() && tensors[0].is_sparse()) return allreduce_sparse(tensors, options);
  return reduce_all(c10d::OpType::ALLREDUCE, tensors, options);
}

ProcessGroup::WorkPointer ProcessGroup::allreduce_coalesced(
    Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  return reduce_all(c10d::OpType::ALLREDUCE_COALESCED, tensors, options);
}

ProcessGroup::WorkPointer ProcessGroup::reduce(Tensors& tensors,
                                               const c10d::ReduceOptions& options) {
  check_one(tensors);
  const Reduction checked(tensors[0].scalar_type(), options.reduceOp, size_);
  return run({.type = c10d::OpType::REDUCE,
              .outputs = tensors,
              .in_place = true,
              .to_driver = reduced_by_driver(OB_COMMUNICATION_REDUCE, options.reduceOp,
                                             static_cast<int>(options.rootRank)),
              .timeout = options.timeout},
             [this, options](auto&, auto& outputs) {
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
             });
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
                      "reduce_scatter takes inputs with the shape and dtype of its output");
  }
  const Reduction checked(outputs[0].scalar_type(), options.reduceOp, size_);
  return run({.type = c10d::OpType::REDUCE_SCATTER,
              .inputs = inputs[0],
              .outputs = outputs,
              .to_driver = list_scattered_by_driver(options.reduceOp),
              .timeout = options.timeout},
             [this, options](auto& host_inputs, auto& host_outputs) {
               Tensors parts;
               for (const HostTensor& input : host_inputs) {
                 parts.push_back(input.tensor().reshape({-1}));
               }
               scatter_reduced(host_outputs[0].tensor().view({-1}), at::cat(parts), options);
             });
}

ProcessGroup::WorkPointer ProcessGroup::_reduce_scatter_base(
    at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) {
  Tensors outputs = {output}, inputs = {input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroup::WorkPointer ProcessGroup::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == inputs.size(),
                    "reduce_scatter takes as many inputs as outputs, and got ", inputs.size(),
                    " and ", outputs.size());
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
  return run({.type = type,
              .inputs = inputs,
              .outputs = outputs,
              .to_driver = reduced_by_driver(OB_COMMUNICATION_REDUCE_SCATTER, options.reduceOp),
              .parts = outputs.size() == 1 ? Call::kByRank : Call::kWhole,
              .timeout = options.timeout},
             [this, options](auto& host_inputs, auto& host_outputs) {
               for (size_t i = 0; i < host_outputs.size(); ++i) {
                 scatter_reduced(host_outputs[i].tensor().view({-1}),
                                 host_inputs[i].tensor().view({-1}), options);
               }
             });
}

// ---- Sparse tensors, by the CPU backend

// The caller waits, because the number of elements of the sum is not known before.
ProcessGroup::WorkPointer ProcessGroup::allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                         const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "a sparse all_reduce takes one tensor, and got ",
                    tensors.size());
  at::Tensor& tensor = tensors[0];
  TORCH_CHECK_VALUE(tensor.layout() == at::kSparse, "tensors of layout ", tensor.layout(),
                    " cannot be reduced; convert them with to_sparse() or to_dense()");
  TORCH_CHECK_VALUE(!options.sparseIndices.has_value(),
                    "a sparse all_reduce finds the indices of the sum; leave them out");
  c10d::AllreduceOptions mine = options;
  const bool averages = options.reduceOp.op_ == c10d::ReduceOp::AVG;
  if (averages) mine.reduceOp = c10d::ReduceOp::SUM;
  at::Tensor host = tensor.coalesce().cpu();
  const WorkPointer work =
      run({.type = c10d::OpType::_ALLREDUCE_SPARSE}, [this, mine, host](auto&, auto&) {
        Tensors sums = {host};
        finish(cpu_backend_->allreduce(sums, mine));
      });
  work->wait(std::chrono::hours(24 * 365));
  if (averages) host.div_(size_);
  tensor.copy_(host.to(tensor.device()));
  return c10::make_intrusive<CollectiveWork>(
      rank_, c10d::OpType::ALLREDUCE, std::vector<std::shared_ptr<HostPart>>{},
      std::vector<c10::Stream>{current_stream(tensor.device().index())}, tensors);
}

namespace {

// PyTorch's dense kernel only looks up the group's backend, so it also serves sparse tensors.
void as_dense(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, library) {
  library.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&as_dense>());
}

}  // namespace
}  // namespace outboard::distributed
