#include "device_kernels/kernel_types.h"

#include <c10/core/DynamicCast.h>
#include <c10/util/Exception.h>

#include <type_traits>

#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;

// What kernels know of dtypes: the C++ type of values, and OpenCL's types in memory, of values and
// of elements of masks (values without the 2 of complex types), and the contract's name.
// clang-format off
#define OUTBOARD_KERNEL_TYPES(DTYPE)                                                          \
  DTYPE(Bool,          bool,                 "uchar",  "uchar",  "char",  OB_DTYPE_BOOL)       \
  DTYPE(Byte,          uint8_t,              "uchar",  "uchar",  "char",  OB_DTYPE_UINT8)      \
  DTYPE(Char,          int8_t,               "char",   "char",   "char",  OB_DTYPE_INT8)       \
  DTYPE(Short,         int16_t,              "short",  "short",  "short", OB_DTYPE_INT16)      \
  DTYPE(UInt16,        uint16_t,             "ushort", "ushort", "short", OB_DTYPE_UINT16)     \
  DTYPE(Int,           int32_t,              "int",    "int",    "int",   OB_DTYPE_INT32)      \
  DTYPE(UInt32,        uint32_t,             "uint",   "uint",   "int",   OB_DTYPE_UINT32)     \
  DTYPE(Long,          int64_t,              "long",   "long",   "long",  OB_DTYPE_INT64)      \
  DTYPE(UInt64,        uint64_t,             "ulong",  "ulong",  "long",  OB_DTYPE_UINT64)     \
  DTYPE(Half,          float,                "half",   "float",  "int",   OB_DTYPE_FLOAT16)    \
  DTYPE(BFloat16,      float,                "ushort", "float",  "int",   OB_DTYPE_BFLOAT16)   \
  DTYPE(Float,         float,                "float",  "float",  "int",   OB_DTYPE_FLOAT32)    \
  DTYPE(Double,        double,               "double", "double", "long",  OB_DTYPE_FLOAT64)    \
  DTYPE(ComplexFloat,  c10::complex<float>,  "float2",  "float",  "int",  OB_DTYPE_COMPLEX64)  \
  DTYPE(ComplexDouble, c10::complex<double>, "double2", "double", "long", OB_DTYPE_COMPLEX128)
// clang-format on

struct KernelType {
  const char* storage = nullptr;  // no kernel type
  const char* value = nullptr;
  const char* mask = nullptr;
  uint32_t contract = 0;
};

KernelType type_of(ScalarType dtype) {
  switch (dtype) {
#define OUTBOARD_CASE(name, type, storage, value, mask, contract) \
  case ScalarType::name:                                          \
    return {storage, value, mask, contract};
    OUTBOARD_KERNEL_TYPES(OUTBOARD_CASE)
#undef OUTBOARD_CASE
    default:
      return {};
  }
}

// Adds get(type()), a value of the C++ type behind `dtype`.
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

std::string wide(const char* type, int width) {
  return width == 1 ? std::string(type) : type + std::to_string(width);
}

bool is_float(ScalarType dtype) { return at::isFloatingType(dtype); }
bool is_bool(ScalarType dtype) { return dtype == ScalarType::Bool; }

// "(float16)(0)"
std::string constant(ScalarType dtype, int width, const char* value) {
  return "((" + value_type(dtype, width) + ")(" + value + "))";
}

std::string nonzero(ScalarType dtype, int width, const std::string& value) {
  return at::isComplexType(dtype) ? "ob_complex_nonzero(" + value + ")"
                                  : "((" + value + ") != " + constant(dtype, width, "0") + ")";
}

}  // namespace

bool has_kernel_type(ScalarType dtype) { return type_of(dtype).storage != nullptr; }

uint32_t contract_dtype(ScalarType dtype) {
  switch (dtype) {
    // No kernel types: for library calls.
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
      return type_of(dtype).contract;
  }
}

bool computes(c10::DeviceIndex device, ScalarType dtype) {
  return (device_properties(device).dtypes & type_of(value_dtype(dtype)).contract) != 0;
}

ScalarType value_dtype(ScalarType dtype) {
  return dtype == ScalarType::Half || dtype == ScalarType::BFloat16 ? ScalarType::Float : dtype;
}

const char* storage_type(ScalarType dtype) { return type_of(dtype).storage; }

std::string value_type(ScalarType dtype, int width) {
  const char* value = type_of(dtype).value;
  return at::isComplexType(dtype) ? wide(value, 2) : wide(value, width);
}

std::string mask_type(ScalarType dtype, int width) {
  return width == 1 ? "int" : wide(type_of(dtype).mask, width);
}

const char* literal_options(ScalarType value) {
  return value == ScalarType::Double || value == ScalarType::ComplexDouble
             ? ""
             : "-cl-single-precision-constant";
}

std::string load_text(ScalarType dtype, int width, const std::string& pointer,
                      const std::string& index, bool aligned) {
  const std::string w = std::to_string(width);
  const std::string at = pointer + " + " + index;
  if (width == 1) {
    const std::string element = pointer + "[" + index + "]";
    if (is_bool(dtype)) return "((uchar)(" + element + " != 0))";
    if (dtype == ScalarType::Half) return "vload_half(" + index + ", " + pointer + ")";
    if (dtype == ScalarType::BFloat16) return "as_float((uint)" + element + " << 16)";
    return element;
  }
  if (dtype == ScalarType::Half) {
    return (aligned ? "ob_from_aligned_halves" : "ob_from_halves") + w + "(" + at + ")";
  }
  const std::string raw =
      aligned ? "(*(const __global " + (storage_type(dtype) + w) + " *)(" + at + "))"
              : "vload" + w + "(0, " + at + ")";
  if (is_bool(dtype)) {
    return "as_uchar" + w + "((" + raw + " != (uchar" + w + ")(0)) & (char" + w + ")(1))";
  }
  if (dtype == ScalarType::BFloat16) {
    return "as_float" + w + "(convert_uint" + w + "(" + raw + ") << 16)";
  }
  return raw;
}

std::string store_text(ScalarType dtype, int width, const std::string& pointer,
                       const std::string& index, const std::string& value, bool aligned) {
  const std::string w = std::to_string(width);
  if (width == 1) {
    if (dtype == ScalarType::Half)
      return "vstore_half_rte(" + value + ", " + index + ", " + pointer + ");";
    const std::string element = pointer + "[" + index + "] = ";
    if (dtype == ScalarType::BFloat16) return element + "ob_bfloat16(" + value + ");";
    return element + value + ";";
  }
  const std::string at = "0, " + pointer + " + " + index + ");";
  if (dtype == ScalarType::Half) {
    return (aligned ? "ob_to_aligned_halves" : "ob_to_halves") + w + "(" + value + ", " + pointer +
           " + " + index + ");";
  }
  const std::string stored =
      dtype == ScalarType::BFloat16 ? "ob_bfloat16_" + w + "(" + value + ")" : value;
  if (aligned) {
    return "*(__global " + (storage_type(dtype) + w) + " *)(" + pointer + " + " + index +
           ") = " + stored + ";";
  }
  return "vstore" + w + "(" + stored + ", " + at;
}

std::string convert_text(ScalarType from, ScalarType to, int width, const std::string& value) {
  if (from == to) return value;
  if (is_bool(to)) return mask_to_value_text(from, to, width, nonzero(from, width, value));
  const bool from_complex = at::isComplexType(from);
  if (at::isComplexType(to)) {
    if (from_complex) return "convert_" + value_type(to) + "(" + value + ")";
    const ScalarType part = c10::toRealValueType(to);
    return "((" + value_type(to) + ")(" + convert_text(from, part, 1, value) + ", 0))";
  }
  if (from_complex) {
    return convert_text(c10::toRealValueType(from), to, 1, "(" + value + ").x");
  }
  const std::string target = "convert_" + value_type(to, width);
  // Values in the range of a wide integer wrap, as they do on CPU.
  const char* between = from == ScalarType::Float && width > 1 ? "int" : "long";
  const bool narrow = c10::elementSize(to) < 4 && at::isIntegralType(to, false);
  if (is_float(from) && narrow) {
    return target + "(convert_" + wide(between, width) + "(" + value + "))";
  }
  if (is_float(from) && to == ScalarType::UInt32) {
    return target + "(convert_" + wide("long", width) + "(" + value + "))";
  }
  return target + "(" + value + ")";
}

std::string mask_to_value_text(ScalarType compared, ScalarType to, int width,
                               const std::string& mask) {
  if (width == 1) {
    const std::string flag = "((uchar)((" + mask + ") != 0))";
    return is_bool(to) ? flag : convert_text(ScalarType::Byte, to, 1, flag);
  }
  const std::string ones = "((" + mask + ") & (" + mask_type(compared, width) + ")(1))";
  return "convert_" + value_type(to, width) + "(" + ones + ")";
}

std::string value_to_mask_text(ScalarType from, ScalarType compared, int width,
                               const std::string& value) {
  const std::string mask = nonzero(from, width, value);
  if (width == 1) return mask;
  const std::string wanted = mask_type(compared, width);
  return mask_type(from, width) == wanted ? mask : "convert_" + wanted + "(" + mask + ")";
}

namespace {

// {w} is the vector width, {n} the same with an underscore ("_8"). Both are "" for scalars.
constexpr const char* kBfloat16 = R"(
static inline ushort{w} ob_bfloat16{n}(float{w} value) {
  const uint{w} bits = __builtin_astype(value, uint{w});
  const uint{w} rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return convert_ushort{w}(value != value ? (uint{w})(0x7fc0u) : rounded);
}
)";

// PoCL 3.0 reads vectors of halves as if they were aligned, which fails where the processor loads
// them without converting at once: they go by way of integers.
constexpr const char* kFromHalves = R"(
static inline float{w} ob_from_halves{w}(const __global half *p) {
  const ushort{w} bits = vload{w}(0, (const __global ushort *)p);
  return vload_half{w}(0, (const half *)&bits);
}
)";
constexpr const char* kToHalves = R"(
static inline void ob_to_halves{w}(const float{w} value, __global half *p) {
  ushort{w} bits;
  vstore_half{w}_rte(value, 0, (half *)&bits);
  vstore{w}(bits, 0, (__global ushort *)p);
}
)";
constexpr const char* kFromAlignedHalves = R"(
static inline float{w} ob_from_aligned_halves{w}(const __global half *p) {
  const ushort{w} bits = *(const __global ushort{w} *)p;
  return vload_half{w}(0, (const half *)&bits);
}
)";
constexpr const char* kToAlignedHalves = R"(
static inline void ob_to_aligned_halves{w}(const float{w} value, __global half *p) {
  ushort{w} bits;
  vstore_half{w}_rte(value, 0, (half *)&bits);
  *(__global ushort{w} *)p = bits;
}
)";
constexpr const char* kComplexNonzero = R"(
#define ob_complex_nonzero(value) ((value).x != 0 || (value).y != 0)
)";

struct TypeFunction {
  const char* name;
  const char* text;
  bool for_scalars;
  bool for_vectors;
};

constexpr TypeFunction kTypeFunctions[] = {
    {"ob_bfloat16{n}", kBfloat16, true, true},
    {"ob_from_halves{w}", kFromHalves, false, true},
    {"ob_to_halves{w}", kToHalves, false, true},
    {"ob_from_aligned_halves{w}", kFromAlignedHalves, false, true},
    {"ob_to_aligned_halves{w}", kToAlignedHalves, false, true},
    {"ob_complex_nonzero", kComplexNonzero, true, false},
};

std::string of_width(std::string text, int width) {
  const std::string w = width == 1 ? "" : std::to_string(width);
  for (const auto& [mark, value] :
       {std::pair("{w}", w), std::pair("{n}", (w.empty() ? "" : "_") + w)}) {
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at)) {
      text.replace(at, 3, value);
    }
  }
  return text;
}

// Whether a source calls a function, or a macro of it does.
bool calls(const std::string& text, const std::string& name) {
  return text.find(name + "(") != std::string::npos;
}

}  // namespace

std::string with_type_functions(const std::string& text) {
  std::string functions;
  for (const TypeFunction& function : kTypeFunctions) {
    for (const int width : {1, 2, 4, 8, 16}) {
      if (width == 1 ? !function.for_scalars : !function.for_vectors) continue;
      if (calls(text, of_width(function.name, width))) functions += of_width(function.text, width);
    }
  }
  return functions + text;
}

void add_scalar(LaunchArguments& arguments, const at::Scalar& scalar, ScalarType dtype) {
  add_value(arguments, dtype, [&]<class T>(T) { return scalar.to<T>(); });
}

void add_element(LaunchArguments& arguments, const void* element, ScalarType from,
                 ScalarType dtype) {
  add_value(arguments, dtype, [&]<class T>(T) { return c10::fetch_and_cast<T>(from, element); });
}

}  // namespace outboard
