// The engine of operators that are made of other operators of the device.
//
// A row's properties:
//
//   body        the function's body in the language of TorchScript
//   (device_kernels/composed/script.h). Its names
//               are the arguments of the overload without those of out=; it returns the results of
//               the functional form, or a tuple of them. A failed `assert` declines the call, so
//               it has to stand before whatever writes to an argument: afterwards it raises
//               RuntimeError, since another kernel would do that a second time
//   helpers     functions that the body calls, in the same language
//   dtypes      bits of the dtypes of the first tensor that are served
//   conditions  expressions (device_kernels/expressions/expression.h) without which a call is
//   declined meta        as of the template engine: a functional overload whose Meta kernel checks
//   the call results     names, with `meta`: the body finds the results there, with sizes and
//   strides, and
//               writes them instead of returning them
//   casts       given results of another dtype get the values converted; where PyTorch does not
//               cast so, the call raises this: "TypeError" or "RuntimeError"
//   cpu_arguments  tensors on the CPU are arguments as well; without it only numbers are
//   requires    as in device_kernels/rows/requirements.h
//   alert       as in device_kernels/engine.h
//   family      for the choice of the way; default "composed"
//
// What the body calls runs as any other call does: on the device, or on the host, where it shows.
// Results are written into tensors that were given only after everything has been computed, unless
// they overlap no argument.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/engine.h"
#include "device_kernels/expressions/expression.h"
#include "device_kernels/rows/meta_call.h"
#include "device_kernels/rows/requirements.h"
#include "device_kernels/composed/script.h"

namespace outboard {

class ComposedKernel final : public EngineKernel {
 public:
  ComposedKernel(const Row& row, const c10::FunctionSchema& schema);
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
           c10::DeviceIndex device) override;

 private:
  bool serves(const torch::jit::Stack& stack, c10::DeviceIndex device) const;
  bool deliver(torch::jit::Stack* stack, std::vector<at::Tensor> computed,
               c10::DeviceIndex device) const;
  [[noreturn]] void raise_half_done() const;
  std::vector<at::Tensor> make_results(const torch::jit::Stack& stack,
                                       const std::vector<at::Tensor>& meta,
                                       c10::DeviceIndex device) const;
  bool run_script(torch::jit::Stack& values, size_t counted, bool& wrote);
  const Script& script();

  std::string source_;
  size_t inputs_ = 0;  // arguments of the overload that the body has
  const Requirements requirements_;
  const uint64_t dtypes_;
  const std::string casts_;
  const bool cpu_arguments_;
  std::vector<Expression> conditions_;
  std::optional<MetaCall> meta_;
  bool writes_ = false;
  std::once_flag compiled_;
  std::unique_ptr<Script> script_;
};

}  // namespace outboard
