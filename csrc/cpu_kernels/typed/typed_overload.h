// An operator overload known at compile time: its router entry, its handle, and the call of the
// router for arguments that its typed kernel does not take.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <string>

#include "dispatch/call_routed.h"
#include "dispatch/router.h"

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
      const std::string full = std::string("aten::") + name.text;
      const std::size_t dot = full.find('.');
      return c10::Dispatcher::singleton().findSchemaOrThrow(
          full.substr(0, dot).c_str(),
          dot == std::string::npos ? "" : full.substr(dot + 1).c_str());
    }();
    return found;
  }

  // Boxed, through the router.
  template <class Return, class... Args>
  static Return routed(Args... args) {
    return CallRouted<Return(Args...)>::call(entry(), handle(), std::forward<Args>(args)...);
  }
};

}  // namespace outboard::cpu_kernels

// Like OUTBOARD_DIRECT, but keeps the kernel as a run-time pointer: the dispatcher's wrappers are
// then compiled once per signature instead of once per operator. The kernel comes last because
// template arguments hold commas.
#define OUTBOARD_CPU_ROW(op_name, ...) \
  OUTBOARD_ROW_1(                      \
      __COUNTER__, op_name,            \
      []() -> torch::CppFunction { return torch::CppFunction(&__VA_ARGS__); }, nullptr)
