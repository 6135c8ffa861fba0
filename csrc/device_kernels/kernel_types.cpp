#include "device_kernels/kernel_types.h"

#include <c10/core/DynamicCast.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;

// Kernel dtypes, and the C++ type of values.
#define OUTBOARD_KERNEL_TYPES(DTYPE)       \
  DTYPE(Bool, bool)                        \
  DTYPE(Byte, uint8_t)                     \
  DTYPE(Char, int8_t)                      \
  DTYPE(Short, int16_t)                    \
  DTYPE(UInt16, uint16_t)                  \
  DTYPE(Int, int32_t)                      \
  DTYPE(UInt32, uint32_t)                  \
  DTYPE(Long, int64_t)                     \
  DTYPE(UInt64, uint64_t)                  \
  DTYPE(Half, float)                       \
  DTYPE(BFloat16, float)                   \
  DTYPE(Float, float)                      \
  DTYPE(Double, double)                    \
  DTYPE(ComplexFloat, c10::complex<float>) \
  DTYPE(ComplexDouble, c10::complex<double>)

// 0: no kernel type. 8-bit floating-point dtypes have none: drivers' library calls use them.
uint32_t kernel_dtype(ScalarType dtype) {
  return c10::isFloat8Type(dtype) ? 0 : contract_dtype(dtype);
}

// Adds get(type()), a value of the C++ type for `dtype`.
template <class Get>
void add_value(LaunchArguments& arguments, ScalarType dtype, const Get& get) {
  switch (dtype) {
#define OUTBOARD_CASE(name, type)                                                                 \
  case ScalarType::name:                                                                          \
    arguments.value(                                                                              \
        static_cast<std::conditional_t<std::is_same_v<type, bool>, uint8_t, type>>(get(type{}))); \
    return;
    OUTBOARD_KERNEL_TYPES(OUTBOARD_CASE)
#undef OUTBOARD_CASE
    default:
      TORCH_INTERNAL_ASSERT(false, dtype, " has no kernel type");
  }
}

}  // namespace

bool has_kernel_type(ScalarType dtype) { return kernel_dtype(dtype) != 0; }

bool computes(c10::DeviceIndex device, ScalarType dtype) {
  return (device_properties(device).dtypes & kernel_dtype(value_dtype(dtype))) != 0;
}

ScalarType value_dtype(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::BFloat16 ? ScalarType::Float : dtype;
}

const char* literal_options(ScalarType value) {
  return value == ScalarType::Double || value == ScalarType::ComplexDouble
             ? ""
             : "-cl-single-precision-constant";
}

void add_scalar(LaunchArguments& arguments, const at::Scalar& scalar, ScalarType dtype) {
  add_value(arguments, dtype, [&]<class T>(T) { return scalar.to<T>(); });
}

void add_element(LaunchArguments& arguments, const void* element, ScalarType from,
                 ScalarType dtype) {
  add_value(arguments, dtype, [&]<class T>(T) { return c10::fetch_and_cast<T>(from, element); });
}

void add_indices(LaunchArguments& arguments, const int64_t* values, size_t count, bool wide) {
  if (wide) {
    arguments.bytes(values, count * sizeof(int64_t));
    return;
  }
  std::array<int32_t, 64> narrow;
  TORCH_INTERNAL_ASSERT(count <= narrow.size());
  std::copy_n(values, count, narrow.begin());
  arguments.bytes(narrow.data(), count * sizeof(int32_t));
}

}  // namespace outboard
