// Access from a kernel for AutogradPrivateUse1 to PyTorch's generated derivative of the operator,
// which is registered for the alias Autograd and so hidden by that kernel.
#pragma once

#include <c10/core/DispatchKeySet.h>

namespace outboard {

// Keys to redispatch with, from the keys of such a kernel. AutogradOther has the alias's kernels
// and no others, and the same keys follow it. Keys before autograd, such as the Python dispatcher,
// have already run.
inline c10::DispatchKeySet generated_autograd(c10::DispatchKeySet keys) {
  constexpr c10::DispatchKeySet kAfter(c10::DispatchKeySet::FULL_AFTER,
                                       c10::DispatchKey::AutogradFunctionality);
  return (keys & kAfter) | c10::DispatchKeySet(c10::DispatchKey::AutogradOther);
}

}  // namespace outboard
