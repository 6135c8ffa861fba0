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

// Kernel dtypes: the C++ type of values, and the constant of the driver contract.
// clang-format off
#define OUTBOARD_KERNEL_TYPES(DTYPE)                              \
  DTYPE(Bool, bool, OB_DTYPE_BOOL)                                \
  DTYPE(Byte, uint8_t, OB_DTYPE_UINT8)                            \
  DTYPE(Char, int8_t, OB_DTYPE_INT8)                              \
  DTYPE(Short, int16_t, OB_DTYPE_INT16)                           \
  DTYPE(UInt16, uint16_t, OB_DTYPE_UINT16)                        \
  DTYPE(Int, int32_t, OB_DTYPE_INT32)                             \
  DTYPE(UInt32, uint32_t, OB_DTYPE_UINT32)                        \
  DTYPE(Long, int64_t, OB_DTYPE_INT64)                            \
  DTYPE(UInt64, uint64_t, OB_DTYPE_UINT64)                        \
  DTYPE(Half, float, OB_DTYPE_FLOAT16)                            \
  DTYPE(BFloat16, float, OB_DTYPE_BFLOAT16)                       \
  DTYPE(Float, float, OB_DTYPE_FLOAT32)                           \
  DTYPE(Double, double, OB_DTYPE_FLOAT64)                         \
  DTYPE(ComplexFloat, c10::complex<float>, OB_DTYPE_COMPLEX64)    \
  DTYPE(ComplexDouble, c10::complex<double>, OB_DTYPE_COMPLEX128)
// clang-format on

// 0: no kernel type.
uint32_t kernel_dtype(ScalarType dtype) {
  switch (dtype) {
#define OUTBOARD_CASE(name, type, contract) \
  case ScalarType::name:                    \
    return contract;
    OUTBOARD_KERNEL_TYPES(OUTBOARD_CASE)
#undef OUTBOARD_CASE
    default:
      return 0;
  }
}

// Adds get(type()), a value of the C++ type for `dtype`.
template <class Get>
void add_value(LaunchArguments& arguments, ScalarType dtype, const Get& get) {
  switch (dtype) {
#define OUTBOARD_CASE(name, type, ...)                                                            \
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

uint32_t contract_dtype(ScalarType dtype) {
  switch (dtype) {
    // Library calls only; no kernel types.
    case ScalarType::Float8_e4m3fn:
      return OB_DTYPE_FLOAT8_E4M3FN;
    case ScalarType::Float8_e5m2:
      return OB_DTYPE_FLOAT8_E5M2;
    case ScalarType::Float8_e4m3fnuz:
      return OB_DTYPE_FLOAT8_E4M3FNUZ;
    case ScalarType::Float8_e5m2fnuz:
      return OB_DTYPE_FLOAT8_E5M2FNUZ;
    case ScalarType::Float8_e8m0fnu:
      return OB_DTYPE_FLOAT8_E8M0FNU;
    default:
      return kernel_dtype(dtype);
  }
}

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
