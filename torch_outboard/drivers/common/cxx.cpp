#include "cxx.h"

#include <common/system.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

namespace drivers {
namespace {

thread_local std::string t_message = "No call has failed in this thread.";

std::string format_list(const char* text, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  std::string message(static_cast<size_t>(std::vsnprintf(nullptr, 0, text, arguments)), '\0');
  std::vsnprintf(message.data(), message.size() + 1, text, again);
  va_end(again);
  return message;
}

}  // namespace

std::string format(const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = format_list(text, arguments);
  va_end(arguments);
  return message;
}

void fail(ob_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = format_list(text, arguments);
  va_end(arguments);
  throw Failure{status, std::move(message)};
}

extern "C" const char* last_error(void*) { return t_message.c_str(); }

ob_status keep_message(ob_status status, std::string message) noexcept {
  t_message = std::move(message);
  return status;
}

ob_status keep_exception() noexcept {
  try {
    throw;
  } catch (Failure& failure) {
    return keep_message(failure.status, std::move(failure.message));
  } catch (const std::bad_alloc&) {
    return keep_message(OB_OUT_OF_MEMORY, "The host has no memory.");
  } catch (const std::exception& error) {
    return keep_message(OB_ERROR, error.what());
  }
}

std::string text_setting(const char* variable) {
  const char* text = read_text(variable);
  return text == nullptr ? "" : text;
}

uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise) {
  char problem[256];
  if (!read_number(variable, smallest, largest, &otherwise, problem, sizeof problem)) {
    fail(OB_INVALID_ARGUMENT, "%s", problem);
  }
  return otherwise;
}

std::string choice_setting(const char* variable, std::vector<const char*> choices) {
  const char* chosen = "";
  char problem[256];
  choices.push_back(nullptr);
  if (!read_choice(variable, choices.data(), &chosen, problem, sizeof problem)) {
    fail(OB_INVALID_ARGUMENT, "%s", problem);
  }
  return chosen;
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
  std::string names;
  for (const std::string& choice : choices) names += (names.empty() ? "" : ", ") + choice;
  for (const std::string& item : items) {
    if (choices.empty() || std::find(choices.begin(), choices.end(), item) != choices.end())
      continue;
    fail(OB_INVALID_ARGUMENT, "%s: \"%.100s\" is none of %s.", variable, item.c_str(),
         names.c_str());
  }
  return items;
}

std::string file_of_package(const std::string& name) {
  std::string file = name;
  const auto has_file = [](const char* folder, void* argument) {
    std::string& wanted = *static_cast<std::string*>(argument);
    const std::string path = std::string(folder) + "/" + wanted;
    if (access(path.c_str(), R_OK) != 0) return false;
    wanted = path;
    return true;
  };
  return visit_package_folders(has_file, &file) ? file : "";
}

}  // namespace drivers

// For parts in C, which declare it: stores the message and returns `status`.
extern "C" ob_status fail(ob_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = drivers::format_list(text, arguments);
  va_end(arguments);
  return drivers::keep_message(status, std::move(message));
}
