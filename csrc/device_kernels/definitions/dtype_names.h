// dtypes as definitions name them: "float32".
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>

namespace outboard {

// nullopt for what is no dtype's name.
std::optional<at::ScalarType> dtype_named(const std::string& name);

// The bits (kernel_types.h) of several names, "int32 int64", or of all dtypes, "any". Raises
// ValueError for what is no dtype's name.
uint64_t dtype_set(const std::string& names);

}  // namespace outboard
