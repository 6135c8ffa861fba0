// Code that was compiled for the CPU, run on tensors of the device.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>
#include <utility>
#include <vector>

#include "cpu_kernels/call/cpu_call.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"

namespace outboard {

// ---- Calls of such code with tensors of a device

// Use: construct; convert the inputs; run the graph; convert the results; call `finish`. The device
// is the current one meanwhile, so the graph draws random numbers from its generator.
class OUTBOARD_API HostGraphCall {
 public:
  // Synchronizes the current stream of `device`.
  explicit HostGraphCall(c10::DeviceIndex device)
      : scope_(device), call_(device), device_(device) {}

  // The CPU tensor for an input.
  at::Tensor input(const at::Tensor& tensor, bool written);
  // The device's tensor for a result. `owned`: only the caller has the result.
  at::Tensor result(const at::Tensor& host, bool owned);
  void finish();

 private:
  const DeviceScope scope_;
  CpuCall call_;
  const c10::DeviceIndex device_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;  // device and host
};

// ---- Operators of the device that such code calls between its kernels: those that draw random
// numbers, and an extension's

// Defines a twin of an operator in the namespace outboard_on_device: it takes and returns CPU
// tensors and calls the operator with tensors of the current device. Returns the twin's name
// without namespace. One twin per operator. The operator's results must not alias its arguments.
OUTBOARD_API std::string define_call_on_device(const c10::OperatorHandle& op);

// Defines twins of all random operators of PyTorch, for code from another process.
OUTBOARD_API void define_draws_on_device();

// ---- Models that PyTorch's AOTInductor compiled for the CPU

// Registers a runner with PyTorch for packages (`.pt2`) whose device has this backend's name.
OUTBOARD_API void register_packaged_models();

}  // namespace outboard
