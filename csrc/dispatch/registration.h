// What the library registers with PyTorch's dispatcher when it is loaded.
#pragma once

#include <torch/library.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outboard {

// "aten::add.Tensor" in the dispatcher's form.
inline c10::OperatorName operator_name(const std::string& name) {
  const size_t dot = name.find('.');
  return {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)};
}

// Registers kernels of aten for `key` in `library`, except those that the dispatcher has already:
// other libraries that registered first win.
class YieldingLibrary {
 public:
  YieldingLibrary(torch::Library& library, c10::DispatchKey key) : library_(library), key_(key) {}

  // `name` as torch::Library::impl takes it: "add.Tensor" or "aten::add.Tensor".
  template <class Function>
  YieldingLibrary& impl(const char* name, Function&& function) {
    names_.push_back(full_name(name));
    if (!is_taken(names_.back())) library_.impl(name, std::forward<Function>(function));
    return *this;
  }

  // Full names given to `impl`, also of skipped kernels.
  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  static std::string full_name(std::string_view name) {
    return (name.starts_with("aten::") ? "" : "aten::") + std::string(name);
  }
  bool is_taken(const std::string& name) const {
    const auto op = c10::Dispatcher::singleton().findSchema(operator_name(name));
    return op.has_value() && op->hasKernelForDispatchKey(key_);
  }

  torch::Library& library_;
  const c10::DispatchKey key_;
  std::vector<std::string> names_;
};

// ---- Parts of the list that lie in layers above; each runs once, at load

// The operators that PyTorch requires of every accelerator. They bypass the router: each has one
// implementation. (tensors: memory and views; transfer: copies)
void register_required_operators(YieldingLibrary& library);
void register_copies(YieldingLibrary& library);
// fill_.Scalar and zero_ by the driver, behind the router, for devices whose memory the host cannot
// touch. (transfer)
void register_fills();
// PyTorch's CPU kernels for nested, quantized and sparse tensors, where no other library was first.
// `dense`: library for dense tensors of the device. (tensors)
void register_nested_operators(torch::Library& dense);
void register_quantized_operators();
void register_sparse_operators();
// Histograms of integers, which PyTorch has on accelerators and not on CPU. (decompositions)
void register_integer_histograms();
// aten::lstm.input as one call of oneDNN or of device kernels, in `autograd`, a library for
// AutogradPrivateUse1. (decompositions)
void register_lstm_layers(torch::Library& autograd);

// ---- For these parts

// Registers the boxed router in `library` for every overload of aten that has a kernel for `model`
// and none for `key` yet.
void route_operators_like(c10::DispatchKey model, c10::DispatchKey key, torch::Library& library);

// From the first use of the device on, sends operators without a kernel for `key` to the router:
// those of other libraries, and those for which the router raises the error.
void register_layout_fallback(c10::DispatchKey key);

}  // namespace outboard
