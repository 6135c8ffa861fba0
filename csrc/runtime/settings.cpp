#include "runtime/settings.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace outboard {
namespace {

constexpr NumberSetting kNumbers[] = {kWaitTimeout, kWaitWarning, kCompileNotice, kWorkInFlight};

// "" if it is not set.
const char* text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

}  // namespace

double number_setting(const NumberSetting& setting) {
  const char* text = text_of(setting.variable);
  if (*text == '\0') return setting.otherwise;
  const char* end = text + std::strlen(text);
  double value = 0;
  const auto [stop, error] = std::from_chars(text, end, value);
  const bool possible = error == std::errc() && stop == end && value >= 0 &&
                        value <= setting.highest && !std::signbit(value) &&
                        (!setting.whole || std::strspn(text, "0123456789") == std::strlen(text));
  TORCH_CHECK_VALUE(possible, setting.variable, "='", text, "' is not a ",
                    setting.whole ? "whole number" : "number", " from 0 to ", setting.highest, " (",
                    setting.unit, ")");
  return value;
}

bool flag_setting(const char* variable) {
  const std::string text = text_of(variable);
  TORCH_CHECK_VALUE(text.empty() || text == "0" || text == "1", variable, "='", text,
                    "' is neither 0 nor 1");
  return text == "1";
}

const char* choice_setting(const char* variable, std::initializer_list<const char*> choices) {
  const std::string text = text_of(variable);
  if (text.empty()) return *choices.begin();
  std::string names;
  for (const char* choice : choices) {
    if (text == choice) return choice;
    names += (names.empty() ? "" : ", ") + std::string(choice);
  }
  TORCH_CHECK_VALUE(false, variable, "='", text, "' is not one of ", names);
}

void check_settings() {
  for (const NumberSetting& setting : kNumbers) number_setting(setting);
  flag_setting(kBlocking);
}

std::vector<std::string> runtime_settings() {
  std::vector<std::string> names = {kBlocking};
  for (const NumberSetting& setting : kNumbers) names.emplace_back(setting.variable);
  return names;
}

}  // namespace outboard
