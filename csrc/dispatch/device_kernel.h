// A kernel of the kit that runs one overload on a device by launching compiled code, or by calling
// the driver's library.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>

#include <string>

#include "runtime/export.h"

namespace c10 {
class OperatorHandle;
}

namespace outboard {

class OUTBOARD_API DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;

  // Runs the operator on `device`. Without `keeps_arguments` it takes the arguments off the stack
  // and leaves the results. With it, it leaves the arguments as they are, and behind them the
  // results of a functional form; those of the other forms are arguments. Returns false to decline
  // the call (a dtype, shape or layout it does not serve, or an argument for which the CPU's
  // kernel raises the error); the stack and all tensors are then as before, and the next
  // kernel of the overload or the host takes the call. Called by any number of threads at once.
  virtual bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack, c10::DeviceIndex device, bool keeps_arguments) = 0;

  // What kind of work it is, for listings: "pointwise", "reduction" ...
  virtual const char* family() const noexcept = 0;

  // Whether it needs no compiled code but a function of the driver's library. Such a kernel runs
  // wherever the driver has the function, as vendors' kernels do, whatever the placement of the
  // device.
  virtual bool calls_library() const noexcept { return false; }
};

}  // namespace outboard
