#include "settings.h"

#include <common/failures.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace drivers {
namespace {

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace

std::string text_setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise) {
  const std::string text = text_setting(variable);
  if (text.empty()) return otherwise;
  errno = 0;
  const unsigned long long number = std::strtoull(text.c_str(), nullptr, 10);
  if (text.find_first_not_of("0123456789") == std::string::npos && errno == 0 &&
      number >= smallest && number <= largest) {
    return number;
  }
  fail(OB_INVALID_ARGUMENT, "%s=%.100s is not a whole number from %llu to %llu.", variable,
       text.c_str(), static_cast<unsigned long long>(smallest),
       static_cast<unsigned long long>(largest));
}

std::string choice_setting(const char* variable, const std::vector<std::string>& choices) {
  const std::string text = text_setting(variable);
  if (text.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  fail(OB_INVALID_ARGUMENT, "%s=%.100s is not one of %s", variable, text.c_str(),
       joined(choices).c_str());
}

std::vector<std::string> list_setting(const char* variable,
                                      const std::vector<std::string>& choices) {
  const std::string text = text_setting(variable);
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    if (first < end) {
      items.push_back(text.substr(first, text.find_last_not_of(' ', end - 1) + 1 - first));
    }
    begin = end + 1;
  }
  if (!text.empty() && items.empty()) {
    fail(OB_INVALID_ARGUMENT, "%s=%.100s names nothing.", variable, text.c_str());
  }
  for (const std::string& item : items) {
    if (choices.empty() || std::find(choices.begin(), choices.end(), item) != choices.end())
      continue;
    fail(OB_INVALID_ARGUMENT, "%s: \"%.100s\" is not one of %s.", variable, item.c_str(),
         joined(choices).c_str());
  }
  return items;
}

}  // namespace drivers

extern "C" ob_status read_number(const char* variable, uint64_t smallest, uint64_t largest,
                                 uint64_t* value) try {
  *value = drivers::number_setting(variable, smallest, largest, *value);
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

extern "C" ob_status read_choice(const char* variable, const char* const* choices, int* value) try {
  std::vector<std::string> all;
  for (const char* const* each = choices; *each != nullptr; ++each) all.push_back(*each);
  const std::string chosen = drivers::choice_setting(variable, all);
  const auto found = std::find(all.begin(), all.end(), chosen);
  if (found != all.end()) *value = static_cast<int>(found - all.begin());
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}
