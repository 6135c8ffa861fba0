// PyTorch's dtypes by their bits in the driver contract, OB_DTYPE_*.
#pragma once

#include <c10/core/ScalarType.h>
#include <outboard/driver.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace outboard {

// In the order of the bits.
inline constexpr at::ScalarType kContractDtypes[] = {
    at::kBool,
    at::kByte,
    at::kChar,
    at::kShort,
    at::kInt,
    at::kLong,
    at::kHalf,
    at::kBFloat16,
    at::kFloat,
    at::kDouble,
    at::kComplexFloat,
    at::kComplexDouble,
    at::kUInt16,
    at::kUInt32,
    at::kUInt64,
    at::kFloat8_e4m3fn,
    at::kFloat8_e5m2,
    at::kFloat8_e4m3fnuz,
    at::kFloat8_e5m2fnuz,
    at::kFloat8_e8m0fnu,
};
static_assert(OB_DTYPE_FLOAT8_E8M0FNU == 1u << (std::size(kContractDtypes) - 1));

// The bit of a dtype; 0 if the contract has none.
constexpr uint32_t contract_dtype(at::ScalarType dtype) {
  for (size_t i = 0; i < std::size(kContractDtypes); ++i) {
    if (kContractDtypes[i] == dtype) return uint32_t{1} << i;
  }
  return 0;
}

}  // namespace outboard
