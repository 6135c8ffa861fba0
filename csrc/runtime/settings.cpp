#include "runtime/settings.h"

#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace outboard {
namespace {

// "" if it is not set.
std::string_view text_of(const char* variable) noexcept {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

}  // namespace

double number_setting(const char* variable, double otherwise) noexcept {
  const std::string_view text = text_of(variable);
  const char* end = text.data() + text.size();
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stop == end && value >= 0 ? value : otherwise;
}

bool flag_setting(const char* variable) noexcept { return text_of(variable) == "1"; }

}  // namespace outboard
