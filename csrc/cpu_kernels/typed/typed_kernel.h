// Typed kernels: an operator overload known at compile time, whose kernel runs on device tensors
// without the router where its arguments allow it.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "dispatch/call_routed.h"
#include "dispatch/placement.h"
#include "dispatch/registration.h"
#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/streams/stream.h"

namespace outboard::cpu_kernels {

// A string literal as a template argument.
template <std::size_t N>
struct OverloadName {
  char text[N];
  constexpr OverloadName(const char (&literal)[N]) { std::copy_n(literal, N, text); }
};

// `name` is the overload without namespace: "add.Tensor", "exp".
template <OverloadName name>
struct TypedOverload {
  static Operator& entry() {
    static Operator& found = router_entry(std::string("aten::") + name.text);
    return found;
  }

  static const c10::OperatorHandle& handle() {
    static const c10::OperatorHandle found = [] {
      const c10::OperatorName full = operator_name(std::string("aten::") + name.text);
      return c10::Dispatcher::singleton().findSchemaOrThrow(full.name.c_str(),
                                                            full.overload_name.c_str());
    }();
    return found;
  }

  // Boxed, through the router.
  template <class Return, class... Args>
  static Return routed(Args&&... args) {
    return CallRouted<Return(Args && ...)>::call(entry(), handle(), std::forward<Args>(args)...);
  }
};

// ---- Arguments

// The devices of a call's arguments. A typed kernel runs if all tensors are on one device of this
// backend; one CPU scalar, usually a Python number, is allowed where the operator reads it through
// TensorIterator.
class Arguments {
 public:
  template <class... Args>
  explicit Arguments(const Args&... args) {
    (look_at(args), ...);
  }

  // Every tensor is on one device.
  bool on_one_device() const noexcept { return device_ >= 0 && !foreign_ && !scalar_; }
  // The same, but for at most one zero-dimensional CPU tensor.
  bool on_one_device_but_a_scalar() const noexcept { return device_ >= 0 && !foreign_; }

  c10::DeviceIndex device() const noexcept { return device_; }
  c10::TensorImpl* scalar() const noexcept { return scalar_; }
  // Of the first tensor on the device.
  at::ScalarType dtype() const noexcept { return dtype_; }

 private:
  void look_at(const at::Tensor& tensor) noexcept {
    c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (impl->is_privateuseone() && impl->has_storage()) {
      const c10::DeviceIndex index = impl->device().index();
      if (device_ < 0) {
        device_ = index;
        dtype_ = c10::typeMetaToScalarType(impl->dtype());
      } else {
        foreign_ |= device_ != index;
      }
    } else if (!scalar_ && impl->is_cpu() && impl->dim() == 0 && impl->has_storage()) {
      scalar_ = impl;
    } else {
      // A second scalar, or another device; undefined tensors do not count.
      foreign_ |= tensor.defined();
    }
  }
  void look_at(const std::optional<at::Tensor>& tensor) noexcept {
    if (tensor.has_value()) look_at(*tensor);
  }
  void look_at(at::TensorList tensors) noexcept {
    for (const at::Tensor& tensor : tensors) look_at(tensor);
  }
  template <class T>
  void look_at(const T&) noexcept {}

  c10::DeviceIndex device_ = -1;
  at::ScalarType dtype_ = at::ScalarType::Undefined;
  c10::TensorImpl* scalar_ = nullptr;
  bool foreign_ = false;
};

// A scalar as a CPU tensor in the dtype in which an operator with a tensor of `dtype` computes, as
// TensorIterator makes it on CPU. Undefined if the number would change the dtype of the result, or
// if CPU kernels do not convert it (reduced floating-point dtypes read it in float32).
at::Tensor scalar_as(c10::TensorImpl* scalar, at::ScalarType dtype);
at::Tensor scalar_as(const at::Scalar& scalar, at::ScalarType dtype);

// ---- CPU implementations in at::native that work on device tensors: they read and write through
// pointers, and allocate through the dispatcher, on the device

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
      const PlacementScope host_placement(PlacementSetting::kHost);
      return function(std::forward<Args>(args)...);
    }
    return TypedOverload<name>::template routed<Return>(std::forward<Args>(args)...);
  }
};

}  // namespace outboard::cpu_kernels

// The operator and the function in at::native.
#define OUTBOARD_NATIVE(op_name, function)               \
  OUTBOARD_DIRECT(op_name,                               \
                  ::outboard::cpu_kernels::NativeKernel< \
                      std::remove_pointer_t<decltype(&function)>>::run<&function, op_name>)
// The same where the function is overloaded; its type comes last because it holds commas.
#define OUTBOARD_NATIVE_OVERLOAD(op_name, function, ...) \
  OUTBOARD_DIRECT(op_name,                               \
                  ::outboard::cpu_kernels::NativeKernel<__VA_ARGS__>::run<&function, op_name>)
