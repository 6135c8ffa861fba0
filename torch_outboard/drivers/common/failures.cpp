#include "failures.h"

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

}  // namespace drivers

extern "C" ob_status fail(ob_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = drivers::format_list(text, arguments);
  va_end(arguments);
  return drivers::keep_message(status, std::move(message));
}
