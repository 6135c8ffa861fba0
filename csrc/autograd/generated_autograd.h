// How a kernel for AutogradPrivateUse1 reaches the derivative that PyTorch generated for the
// operator, which is registered for the alias Autograd and so hidden by it.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace outboard {

// Keys to redispatch with, from those that such a kernel was called with. Nothing else has the key
// AutogradOther, for which the alias stands, too, and after which the same keys follow. Those that
// came before autograd, such as the Python dispatcher, had their turn.
inline c10::DispatchKeySet generated_autograd(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kAfter(c10::DispatchKeySet::FULL_AFTER,
                                       c10::DispatchKey::AutogradFunctionality);
  return (keys & kAfter) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
}

}  // namespace outboard
