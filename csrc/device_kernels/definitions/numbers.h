// Arguments that are numbers: what a dtype can hold of them.
#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <string>
#include <vector>

#include "device_kernels/definitions/overload.h"
#include "runtime/export.h"

namespace outboard {

// Whether `dtype` can hold a number: real dtypes hold no complex one, and none overflows. `strict`:
// as for alpha, integers hold no fraction, and only bool holds flags. Which operators raise for the
// others, the host knows.
OUTBOARD_API bool takes_number(at::ScalarType dtype, const at::Scalar& number, bool strict = false);

// The arguments of an overload that are of type Scalar, by index.
OUTBOARD_API std::vector<int> number_arguments(const Overload& overload);
// Whether `dtype` can hold those of a call.
OUTBOARD_API bool takes_numbers(at::ScalarType dtype, const std::vector<int>& arguments,
                                const Overload& overload, const torch::jit::Stack& stack);

}  // namespace outboard
