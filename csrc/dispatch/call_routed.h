// From a typed kernel to the router: boxes the arguments and unboxes what comes back.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>

#include <tuple>
#include <type_traits>
#include <utility>

#include "dispatch/borrowed_arguments.h"
#include "dispatch/router.h"

namespace outboard {

// Runs `entry`'s operator on `args` through the router, from a kernel registered with
// OUTBOARD_DIRECT that does not take these arguments. `Signature` is the function type of
// the overload in C++, for example at::Tensor(const at::Tensor&, const at::Scalar&).
template <class Signature>
struct CallRouted;

template <class Return, class... Args>
struct CallRouted<Return(Args...)> {
  static Return call(Operator& entry, const c10::OperatorHandle& op, Args... args) {
    torch::jit::Stack stack;
    BorrowedArguments borrowed(stack, sizeof...(Args));
    (borrowed.push(std::forward<Args>(args)), ...);
    call_routed_boxed(entry, op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack,
                      &borrowed);
    borrowed.take_off();
    if constexpr (std::is_same_v<Return, at::Tensor&>) {
      // The one that is written: the first (in-place) or last (out=) argument.
      static_assert((std::is_same_v<Args, at::Tensor&> + ...) == 1);
      return std::get<at::Tensor&>(std::tuple<Args...>(args...));
    } else if constexpr (!std::is_void_v<Return>) {
      return c10::impl::PopResult<Return>::call(stack);
    }
  }
};

}  // namespace outboard
