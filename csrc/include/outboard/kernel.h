// Registration of device kernels from C++, at file scope:
//
//   at::Tensor relu(const at::Tensor& self) { ... }
//   OUTBOARD_KERNEL("aten::relu", relu);
//
// A kernel takes and returns device tensors and has the C++ signature of its overload. It replaces
// the kit's way of running the operator, for calls on the device and dtypes it was registered for;
// all other calls go on as before. Nothing is registered with PyTorch's dispatcher twice. A kernel
// of an out= form also serves the functional and the in-place form of a structured operator, unless
// those have kernels of their own: "aten::add.out" is enough for all of "aten::add".
#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <initializer_list>
#include <source_location>
#include <string>

#define OUTBOARD_KERNEL_PUBLIC __attribute__((visibility("default")))

namespace outboard {

// Which calls a kernel serves.
struct KernelScope {
  // Of the first tensor argument, or the dtype argument of a factory. Empty: every dtype.
  std::initializer_list<c10::ScalarType> dtypes = {};
  // -1: every device.
  c10::DeviceIndex device = -1;
};

// Adds a vendor's kernel for an overload, named like "aten::add.Tensor". Takes effect for the next
// call. `origin` says where, as "file:line". Raises ValueError for a name that is none.
OUTBOARD_KERNEL_PUBLIC void register_vendor_kernel(const std::string& name,
                                                   c10::KernelFunction kernel,
                                                   const KernelScope& scope = {},
                                                   const std::string& origin = "");

// Leaves the call to the next kernel of the operator: another vendor's, the driver's library, the
// kit's, or the host. To be called from a kernel before it has written to any tensor. It ends the
// kernel by an exception of the kit's own, which a `catch (...)` on the way must let through.
[[noreturn]] OUTBOARD_KERNEL_PUBLIC void decline();

struct VendorKernelRegistrar {
  VendorKernelRegistrar(const char* name, c10::KernelFunction kernel, const KernelScope& scope = {},
                        const std::source_location& location = std::source_location::current()) {
    register_vendor_kernel(name, std::move(kernel), scope,
                           location.file_name() + (":" + std::to_string(location.line())));
  }
};

}  // namespace outboard

#define OUTBOARD_KERNEL_CONCAT_2(a, b) a##b
#define OUTBOARD_KERNEL_CONCAT_1(a, b) OUTBOARD_KERNEL_CONCAT_2(a, b)
// OUTBOARD_KERNEL("aten::relu", relu) or, for some dtypes or one device,
// OUTBOARD_KERNEL("aten::relu", relu, {{at::kFloat, at::kHalf}, 0}).
#define OUTBOARD_KERNEL(op_name, function, ...)                                                    \
  static const ::outboard::VendorKernelRegistrar OUTBOARD_KERNEL_CONCAT_1(outboard_vendor_kernel_, \
                                                                          __COUNTER__)(            \
      op_name, ::c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(function)), ##__VA_ARGS__)
