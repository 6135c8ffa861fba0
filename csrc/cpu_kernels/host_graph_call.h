// Calls of graphs that torch.compile compiled for the CPU, with tensors of a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "cpu_kernels/call/cpu_call.h"
#include "runtime/driver/device.h"
#include "runtime/export.h"

namespace outboard {

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

}  // namespace outboard
