// Reductions of every dtype by a CPU backend that supports some of them.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <functional>

namespace outboard::distributed {

// A reduction for the CPU backend: dtype, operation, and the steps before and after.
class Reduction {
 public:
  // `ranks`: size of the group, for averages. Raises TypeError for an unsupported combination of
  // dtype and operation.
  Reduction(at::ScalarType dtype, const c10d::ReduceOp& op, int64_t ranks);

  // The CPU backend's tensor for a dense input on the host: the input itself if no conversion is
  // needed, so a reduction in place stays in place.
  at::Tensor carried(const at::Tensor& input) const;
  // The same for an output that is not read.
  at::Tensor carried_result(const at::Tensor& output) const;
  // Converts the CPU backend's result to `output`.
  void finish(const at::Tensor& output, const at::Tensor& carried) const;

  const c10d::ReduceOp& op() const { return cpu_op_; }

 private:
  at::ScalarType carrier_;  // the dtype of the CPU backend
  bool complex_ = false;    // as pairs of real numbers
  c10d::ReduceOp cpu_op_;
  int64_t divisor_ = 1;
  at::Tensor factor_;
};

}  // namespace outboard::distributed
