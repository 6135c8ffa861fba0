// What the library registers with PyTorch's dispatcher when it is loaded.
#pragma once

#include <torch/library.h>

#include "dispatch/external/yielding_library.h"

namespace outboard {

// The operators PyTorch demands of every accelerator: memory, views, copies. They do not go through
// the router: there is one way to do them, and it is chosen inside.
void register_required_operators(YieldingLibrary& library);

// Registers the boxed router in `library` for every overload of aten that has a kernel for `model`
// and none for `key` yet.
void route_operators_like(c10::DispatchKey model, c10::DispatchKey key, torch::Library& library);

// From the first use of the device on, sends operators without a kernel for `key` to the
// router: those of other libraries, and those that need a sentence.
void register_layout_fallback(c10::DispatchKey key);

}  // namespace outboard
