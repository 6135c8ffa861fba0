#include "failures.h"

#include <cinttypes>
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

void check(ob_status status) {
  if (status != OB_OK) throw Failure{status, t_message};
}

uint64_t extent(uint64_t pitch, uint64_t row_bytes, uint64_t rows) {
  if (row_bytes == 0 || rows == 0) fail(OB_INVALID_ARGUMENT, "A copy of 0 bytes.");
  if (rows > 1 && (pitch < row_bytes || pitch > (UINT64_MAX - row_bytes) / (rows - 1))) {
    fail(OB_INVALID_ARGUMENT,
         "A pitch of %" PRIu64 " bytes does not suit %" PRIu64 " rows of %" PRIu64 " bytes.", pitch,
         rows, row_bytes);
  }
  return (rows - 1) * pitch + row_bytes;
}

void check_pattern(uint32_t pattern_bytes, uint64_t bytes) {
  const bool power_of_two = (pattern_bytes & (pattern_bytes - 1)) == 0;
  if (pattern_bytes == 0 || pattern_bytes > 16 || !power_of_two) {
    fail(OB_INVALID_ARGUMENT, "A pattern has 1, 2, 4, 8 or 16 bytes, not %u.", pattern_bytes);
  }
  if (bytes == 0 || bytes % pattern_bytes != 0) {
    fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes are not a multiple of a pattern of %u bytes.",
         bytes, pattern_bytes);
  }
}

void check_peers(int32_t queue, int32_t destination, int32_t source) {
  if (queue == destination || queue == source) return;
  fail(OB_INVALID_ARGUMENT, "A queue of device %d cannot copy from device %d to %d.", queue, source,
       destination);
}

void check_range(ob_address address, uint64_t bytes) {
  if (address != 0 && bytes <= UINT64_MAX - address) return;
  fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes at address 0x%" PRIx64 " are not a range of memory.",
       bytes, address);
}

void check_range(const void* pointer, uint64_t bytes) {
  if (pointer != nullptr && bytes <= UINTPTR_MAX - reinterpret_cast<uintptr_t>(pointer)) return;
  fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes at %p are not a range of host memory.", bytes,
       pointer);
}

}  // namespace drivers

extern "C" ob_status fail(ob_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = drivers::format_list(text, arguments);
  va_end(arguments);
  return drivers::keep_message(status, std::move(message));
}
