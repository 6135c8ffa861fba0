// CPU implementations in at::native that work on device tensors as they are: they read and write
// through pointers, and what they allocate is allocated through the dispatcher, on the device.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "cpu_kernels/typed/arguments.h"
#include "cpu_kernels/typed/typed_overload.h"
#include "dispatch/placement.h"
#include "runtime/driver/device.h"
#include "runtime/streams/stream.h"

namespace outboard::cpu_kernels {

template <class Signature>
struct NativeKernel;

template <class Return, class... Args>
struct NativeKernel<Return(Args...)> {
  template <Return (*function)(Args...), OverloadName name>
  static Return run(Args... args) {
    const Arguments arguments(args...);
    if (arguments.on_one_device() &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      synchronize_stream(current_stream_state(arguments.device()));
      const DeviceScope scope(arguments.device());
      const HostPlacementScope host_placement;
      return function(std::forward<Args>(args)...);
    }
    return TypedOverload<name>::template routed<Return, Args...>(std::forward<Args>(args)...);
  }
};

}  // namespace outboard::cpu_kernels

// The operator and the function in at::native.
#define OUTBOARD_NATIVE(op_name, function)                \
  OUTBOARD_CPU_ROW(op_name,                               \
                   ::outboard::cpu_kernels::NativeKernel< \
                       std::remove_pointer_t<decltype(&function)>>::run<&function, op_name>)
// The same where the function is overloaded; its type comes last because it holds commas.
#define OUTBOARD_NATIVE_OVERLOAD(op_name, function, ...) \
  OUTBOARD_CPU_ROW(op_name,                              \
                   ::outboard::cpu_kernels::NativeKernel<__VA_ARGS__>::run<&function, op_name>)
