// From a typed kernel to the router: boxes the arguments and unboxes what comes back.
#pragma once

#include <ATen/core/boxing/impl/boxing.h>

#include <utility>

#include "dispatch/router.h"

namespace outboard {

// Runs `entry`'s operator on `args` by the way its entry says, from a kernel registered with
// OUTBOARD_DIRECT that has no short way for these arguments. `Signature` is the function type of
// the overload in C++, for example at::Tensor(const at::Tensor&, const at::Scalar&).
template <class Signature>
struct CallRouted;

template <class Return, class... Args>
struct CallRouted<Return(Args...)> {
  static Return call(Operator& entry, const c10::OperatorHandle& op, Args... args) {
    torch::jit::Stack stack = c10::impl::boxArgs<Args...>(std::forward<Args>(args)...);
    call_routed_boxed(entry, op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
    if constexpr (std::is_same_v<Return, at::Tensor&>) {
      // The overloads with a Tensor& result return their last (out=) or first (in-place) argument.
      return returned_reference(stack, std::index_sequence_for<Args...>{}, args...);
    } else if constexpr (!std::is_void_v<Return>) {
      return c10::impl::PopResult<Return>::call(stack);
    }
  }

 private:
  template <std::size_t... I>
  static at::Tensor& returned_reference(torch::jit::Stack& stack, std::index_sequence<I...>,
                                        Args... args) {
    c10::TensorImpl* wanted = stack.at(0).toTensor().unsafeGetTensorImpl();
    at::Tensor* found = nullptr;
    (match(args, wanted, found), ...);
    TORCH_INTERNAL_ASSERT(found != nullptr, "an operator returned none of its arguments");
    return *found;
  }
  template <class T>
  static void match(T&& argument, c10::TensorImpl* wanted, at::Tensor*& found) {
    if constexpr (std::is_same_v<T, at::Tensor&>) {
      if (argument.unsafeGetTensorImpl() == wanted) found = &argument;
    }
  }
};

}  // namespace outboard
