// From a typed kernel to the router: boxed arguments, unboxed results.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/boxing/impl/boxing.h>
#include <ATen/core/stack.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "dispatch/router.h"

namespace outboard {

// Arguments on a stack whose tensors belong to the caller.
//
// A tensor that only Python holds has one reference. For a second one PyTorch takes the interpreter
// lock to preserve the Python object, and again when it ends: a seventh of the host's time of an
// addition. A typed kernel holds its arguments during the call, so the stack needs no references.
class BorrowedArguments {
 public:
  // An empty stack, which gets the arguments by `push`, in order.
  BorrowedArguments(torch::jit::Stack& stack, size_t count) : stack_(stack) {
    stack_.reserve(count + 2);
  }
  ~BorrowedArguments() { let_go(); }
  C10_DISABLE_COPY_AND_ASSIGN(BorrowedArguments);

  template <class T>
  void push(T&& argument) {
    using Type = std::remove_cvref_t<T>;
    if constexpr (std::is_same_v<Type, at::Tensor>) {
      stack_.emplace_back(borrow(argument));
    } else if constexpr (std::is_same_v<Type, std::optional<at::Tensor>>) {
      argument.has_value() ? stack_.emplace_back(borrow(*argument)) : stack_.emplace_back();
    } else {
      stack_.emplace_back(std::forward<T>(argument));
    }
    ++count_;
  }

  // Whether the arguments are borrowed: no longer once they are owned.
  bool any() const noexcept { return count_ > 0; }
  // Counts the references, for kernels that take their arguments off the stack.
  void own() {
    for (size_t i = 0; i < count_; ++i) {
      if (!stack_[i].isTensor()) continue;
      at::Tensor counted = stack_[i].toTensor();
      counted.unsafeReleaseTensorImpl();
    }
    count_ = 0;
  }
  // Takes the arguments off the stack, if they are still borrowed: the results remain.
  void take_off() {
    const auto count = static_cast<ptrdiff_t>(count_);
    let_go();
    stack_.erase(stack_.begin(), stack_.begin() + count);
  }

 private:
  using Pointer = c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  static at::Tensor borrow(const at::Tensor& tensor) {
    return at::Tensor(Pointer::reclaim(tensor.unsafeGetTensorImpl()));
  }
  void let_go() noexcept {
    for (size_t i = 0; i < count_; ++i) {
      if (stack_[i].isTensor()) std::move(stack_[i]).toTensor().unsafeReleaseTensorImpl();
    }
    count_ = 0;
  }

  torch::jit::Stack& stack_;
  size_t count_ = 0;
};

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
      return std::get<at::Tensor&>(std::forward_as_tuple(std::forward<Args>(args)...));
    } else if constexpr (!std::is_void_v<Return>) {
      return c10::impl::PopResult<Return>::call(stack);
    }
  }
};

}  // namespace outboard
