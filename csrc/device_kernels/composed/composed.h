// The engine of operators that are made of other operators of the device.
//
// A row's properties, besides those that every row may have (engine.h):
//
//   body        a function of the overload's arguments (without those of out=) by their names, as
//               many of them as it wants: in Python, or the name of one in C++
//               (OUTBOARD_ROW_FUNCTION in device_kernels/rows/row.h). It returns the results of the
//               functional form, or a tuple of them. It may decline the call before it writes to an
//               argument: afterwards that raises RuntimeError, since another kernel would write a
//               second time
//   dtypes      bits of the dtypes of the first tensor that are served
//   conditions  expressions (device_kernels/expressions/expression.h) without which a call is
//               declined
//   meta        as of the template engine: a functional overload whose Meta kernel checks the call
//   results     names, with `meta`: the body finds the results there, with sizes and strides, and
//               writes them instead of returning them
//   casts       given results of another dtype get the values converted; where PyTorch does not
//               cast so, the call raises this: "TypeError" or "RuntimeError"
//   cpu_arguments  tensors on the CPU are arguments as well; without it only numbers are
//
// What the body calls runs as any other call does: on the device, or on the host, where it shows.
// Autograd and autocast do not see it.
// Results are written into tensors that were given only after everything has been computed, unless
// they overlap no argument.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "device_kernels/engine.h"
#include "device_kernels/expressions/expression.h"
#include "device_kernels/rows/meta_call.h"

namespace outboard {

class ComposedKernel final : public EngineKernel {
 public:
  ComposedKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  bool serves(const torch::jit::Stack& stack, c10::DeviceIndex device) const;
  // Whether what was given takes values of these dtypes; raises what PyTorch raises.
  bool can_deliver(const torch::jit::Stack& stack, const std::vector<at::Tensor>& computed) const;
  void deliver(torch::jit::Stack* stack, std::vector<at::Tensor> computed,
               c10::DeviceIndex device) const;
  [[noreturn]] void raise_half_done() const;
  std::vector<at::Tensor> make_results(const torch::jit::Stack& stack,
                                       const std::vector<at::Tensor>& meta,
                                       c10::DeviceIndex device) const;
  bool call_body(torch::jit::Stack& values, bool watched, bool& wrote) const;

  // What the body gets: arguments by their places in the overload, and behind all of them results.
  std::vector<size_t> places_;
  RowFunction::Arguments parameters_;
  RowFunction::Arguments returns_;
  size_t inputs_ = 0;  // arguments of the overload without those of out=
  const Row::Function body_;
  const uint64_t dtypes_;
  const std::string casts_;
  const bool cpu_arguments_;
  std::vector<Expression> conditions_;
  std::optional<MetaCall> meta_;
  bool writes_ = false;            // results
  bool writes_arguments_ = false;  // not only those of out=
};

}  // namespace outboard
