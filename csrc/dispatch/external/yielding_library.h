// The kit's registrations with PyTorch's dispatcher, which leave to others what they were first to
// register.
#pragma once

#include <torch/library.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace outboard {

// Registers kernels of aten for `key` in `library`, except those that the dispatcher has already.
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

  // Of all calls of `impl`, in full.
  const std::vector<std::string>& names() const noexcept { return names_; }

 private:
  static std::string full_name(std::string_view name) {
    return (name.starts_with("aten::") ? "" : "aten::") + std::string(name);
  }
  bool is_taken(const std::string& name) const {
    const size_t dot = name.find('.');
    const auto op = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    return op.has_value() && op->hasKernelForDispatchKey(key_);
  }

  torch::Library& library_;
  const c10::DispatchKey key_;
  std::vector<std::string> names_;
};

}  // namespace outboard
