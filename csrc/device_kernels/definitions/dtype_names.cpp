#include "device_kernels/definitions/dtype_names.h"

#include <c10/core/ScalarType.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "device_kernels/kernel_types.h"

namespace outboard {

std::optional<at::ScalarType> dtype_named(const std::string& name) {
  const auto& names = c10::getStringToDtypeMap();
  const auto found = names.find(name);
  return found == names.end() ? std::nullopt : std::optional(found->second);
}

uint64_t dtype_set(const std::string& names) {
  if (names == "any") return ~uint64_t{0};
  uint64_t set = 0;
  for (size_t at = 0; at < names.size();) {
    const size_t end = std::min(names.find(' ', at), names.size());
    const auto dtype = dtype_named(names.substr(at, end - at));
    TORCH_CHECK_VALUE(dtype.has_value(), "it names the dtypes '", names, "', which are none");
    set |= dtype_bit(*dtype);
    at = end + 1;
  }
  return set;
}

}  // namespace outboard
