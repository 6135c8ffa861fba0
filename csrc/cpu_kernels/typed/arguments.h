// What the typed kernels ask about their arguments before they run without the router.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "runtime/driver/device.h"

namespace outboard::cpu_kernels {

// Walks over the arguments of a call once. A typed kernel may run when every tensor lies on one
// device of ours; one CPU scalar (a Python number, usually) is allowed where the operator reads it
// through TensorIterator.
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

// A CPU scalar in the dtype in which an operator with a tensor of `dtype` computes, as
// TensorIterator makes it on CPU. Undefined where the number would change the dtype of the result,
// or where CPU kernels treat the number in a way that a converted one would not get (the reduced
// floating point types read it in float32).
at::Tensor scalar_as(c10::TensorImpl* scalar, at::ScalarType dtype);
at::Tensor scalar_as(const at::Scalar& scalar, at::ScalarType dtype);

}  // namespace outboard::cpu_kernels
