#include "runtime/settings.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace outboard {

double number_setting(const char* variable, double otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  const char* end = text + std::strlen(text);
  double value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  TORCH_CHECK_VALUE(error == std::errc() && stop == end && std::isfinite(value) && value >= 0,
                    variable, " is a number of at least 0, and '", text, "' was given");
  return value;
}

}  // namespace outboard
