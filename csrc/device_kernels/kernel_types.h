// Kernel dtypes: supported dtypes, compute dtypes, arguments of scalars and of indices. Types in
// OpenCL C are in torch_outboard/ops/sources/value_types.py.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <type_traits>

#include "runtime/export.h"
#include "runtime/programs/launch.h"

namespace outboard {

// Dtype sets are integers with these bits, also in definitions.
constexpr uint64_t dtype_bit(at::ScalarType dtype) {
  return uint64_t{1} << static_cast<int>(dtype);
}

// True if kernels can load, store and compute on the dtype.
OUTBOARD_API bool has_kernel_type(at::ScalarType dtype);
// The same for one device. float16 and bfloat16 are computed in float32 and need no native
// arithmetic.
OUTBOARD_API bool computes(c10::DeviceIndex device, at::ScalarType dtype);

// The dtype of values that kernels compute with: Float for Half and BFloat16, else the same.
OUTBOARD_API at::ScalarType value_dtype(at::ScalarType dtype);

// "double" and "double2" need the option below not to be given, all others need it: literals are
// then of single precision.
OUTBOARD_API const char* literal_options(at::ScalarType value);

// Adds a scalar as an argument of the value dtype. Raises RuntimeError where the value does
// not fit, as PyTorch does.
OUTBOARD_API void add_scalar(LaunchArguments& arguments, const at::Scalar& scalar,
                             at::ScalarType dtype);
// The same for the element of a CPU tensor.
OUTBOARD_API void add_element(LaunchArguments& arguments, const void* element, at::ScalarType from,
                              at::ScalarType dtype);

// Adds an index, a flag, or a struct of 64-bit indices as one argument, of 32 bits each unless
// `wide`.
OUTBOARD_API void add_indices(LaunchArguments& arguments, const int64_t* values, size_t count,
                              bool wide);
template <class Layout>
void add_layout(LaunchArguments& arguments, const Layout& layout, bool wide) {
  if constexpr (std::is_integral_v<Layout>) {
    wide ? arguments.value(static_cast<int64_t>(layout))
         : arguments.value(static_cast<int32_t>(layout));
  } else {
    static_assert(sizeof(Layout) % sizeof(int64_t) == 0);
    add_indices(arguments, reinterpret_cast<const int64_t*>(&layout),
                sizeof(Layout) / sizeof(int64_t), wide);
  }
}

}  // namespace outboard
