// PyTorch's Meta kernels in C++. The dispatcher does not reach them any more once PyTorch's Python
// part is there: it replaces them by functions in Python for the sake of tracing, each call of
// which takes up to half a millisecond and the interpreter lock.
#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <string>

#include "device_kernels/definitions/overload.h"
#include "runtime/export.h"

namespace outboard {

// The functional form of an overload, "aten::gather" of "aten::gather.out", if its kernel is known;
// else "".
std::string functional_meta_kernel(const Overload& overload);

// The kernel of a functional overload, "aten::gather"; nullptr for one that is not known.
OUTBOARD_API const c10::KernelFunction* find_meta_kernel(const std::string& overload);

}  // namespace outboard
