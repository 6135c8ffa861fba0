// Reductions of every dtype by a CPU backend that knows some of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <functional>

namespace outboard::distributed {

// A reduction as the CPU backend takes it: dtype, operation, and what is done before and after.
class Reduction {
 public:
  // `ranks` are those of the group, for averages. Raises TypeError for a dtype and an operation
  // that do not go together.
  Reduction(at::ScalarType dtype, const c10d::ReduceOp& op, int64_t ranks);

  // Tensors of the host, dense. What the CPU backend gets of an input: the tensor itself where
  // nothing is to be done, so a reduction in place stays one.
  at::Tensor carried(const at::Tensor& input) const;
  // Of an output that is not read.
  at::Tensor carried_result(const at::Tensor& output) const;
  // Puts into `output` what the CPU backend left in the carried tensor.
  void finish(const at::Tensor& output, const at::Tensor& carried) const;

  const c10d::ReduceOp& op() const { return cpu_op_; }

 private:
  at::ScalarType carrier_;  // the dtype that the CPU backend computes in
  bool complex_ = false;    // as pairs of real numbers
  c10d::ReduceOp cpu_op_;
  int64_t divisor_ = 1;
  at::Tensor factor_;
};

}  // namespace outboard::distributed
