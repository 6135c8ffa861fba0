// dtypes in OpenCL C: how an element lies in memory, in which type kernels compute with it, and the
// text that loads, converts and stores it, for scalars and for vectors alike.
//
// Kernels see a value in its value type: the dtype itself, but float32 for float16 and bfloat16,
// uchar (0 or 1) for bool, float2 and double2 for complex dtypes. Widths above 1 exist for real
// value types alone.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

#include "runtime/export.h"
#include "runtime/programs/launch.h"

namespace outboard {

constexpr int kDtypes = 64;  // more than PyTorch has

// Sets of dtypes are numbers with these bits, in definitions as well.
constexpr uint64_t dtype_bit(at::ScalarType dtype) {
  return uint64_t{1} << static_cast<int>(dtype);
}

// Whether kernels can load, store and compute on the dtype at all.
OUTBOARD_API bool has_kernel_type(at::ScalarType dtype);
// The OB_DTYPE_* bit of the dtype; 0 where the contract has no name for it. Those of one byte have
// one, for library calls, and no kernel type.
OUTBOARD_API uint32_t contract_dtype(at::ScalarType dtype);
// Whether kernels on this device can: float16 and bfloat16 are computed in float32 and need no
// arithmetic of their own.
OUTBOARD_API bool computes(c10::DeviceIndex device, at::ScalarType dtype);

// The dtype of values that kernels compute with: Float for Half and BFloat16, else the same.
OUTBOARD_API at::ScalarType value_dtype(at::ScalarType dtype);

// "ushort" for BFloat16: the type behind a `__global` pointer. bool is uchar.
OUTBOARD_API const char* storage_type(at::ScalarType dtype);
// "float" for BFloat16, "float2" for ComplexFloat.
OUTBOARD_API std::string value_type(at::ScalarType dtype, int width = 1);
// What comparisons of such values give: int for scalars, else the vector of signed integers of the
// same size, with -1 for true.
OUTBOARD_API std::string mask_type(at::ScalarType dtype, int width = 1);
// "double" and "double2" need the option below not to be given, all others need it: literals are
// then of single precision.
OUTBOARD_API const char* literal_options(at::ScalarType value);

// Expression: `width` values from `pointer[index]` on, in the value type. `aligned`: that is a
// multiple of the vector's size, and one access does.
OUTBOARD_API std::string load_text(at::ScalarType dtype, int width, const std::string& pointer,
                                   const std::string& index, bool aligned = false);
// Statement: stores a value of the value type there.
OUTBOARD_API std::string store_text(at::ScalarType dtype, int width, const std::string& pointer,
                                    const std::string& index, const std::string& value,
                                    bool aligned = false);
// Expression: a value of one value dtype in another, with PyTorch's rules for casts.
OUTBOARD_API std::string convert_text(at::ScalarType from, at::ScalarType to, int width,
                                      const std::string& value);
// Expression: what a comparison gave as a value of `to`. `compared` is the dtype of what was
// compared.
OUTBOARD_API std::string mask_to_value_text(at::ScalarType compared, at::ScalarType to, int width,
                                            const std::string& mask);
// Expression: a value as a mask of the kind that comparisons of `compared` give.
OUTBOARD_API std::string value_to_mask_text(at::ScalarType from, at::ScalarType compared, int width,
                                            const std::string& value);

// A program's source behind the definitions of those functions that the expressions above call in
// it. Without the others the front end takes a fifth less time for a small kernel.
OUTBOARD_API std::string with_type_functions(const std::string& text);

// Adds a scalar as an argument of type value_type(dtype). Raises RuntimeError where the value does
// not fit, as PyTorch does.
OUTBOARD_API void add_scalar(LaunchArguments& arguments, const at::Scalar& scalar,
                             at::ScalarType dtype);
// The same for the element of a CPU tensor.
OUTBOARD_API void add_element(LaunchArguments& arguments, const void* element, at::ScalarType from,
                              at::ScalarType dtype);

}  // namespace outboard
