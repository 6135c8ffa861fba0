#include "runtime/driver/driver_failure.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <utility>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/programs/device_assert.h"

namespace outboard {
namespace {

struct Deferred {
  std::exception_ptr failure;
};

std::atomic<bool> g_failed{false};

// "driver 'x' returned error from `call`, when: cause; advice".
std::string status_message(ob_status status, const char* call, const char* when) {
  const ob_driver* table = loaded_driver();
  if (table == nullptr) return c10::str("`", call, "` failed: the driver is not loaded");
  std::string advice;
  if (status == OB_DEVICE_LOST && table->device_reset == nullptr) {
    advice = "; the device is lost until the process restarts";
  } else if (status == OB_DEVICE_LOST) {
    advice = c10::str("; the device is lost until torch.",
                      c10::DeviceTypeName(c10::DeviceType::PrivateUse1, /*lower_case=*/true),
                      ".reset_device() is called, once its tensors are gone");
  }
  return c10::str("driver '", table->name, "' returned ", status_name(status), " from `", call, "`",
                  when, ": ", driver_message(*table), advice);
}

// Bytes of the UTF-8 character at `text`; 0 if it is none. `room`: bytes of the text from there.
size_t character_bytes(const char* text, size_t room) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || room < length) return 0;
  // Excludes overlong forms, surrogates and code points past the last.
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

const char* status_name(ob_status status) noexcept {
  static constexpr std::array kNames = {
      "ok",          "not ready",    "out of memory", "invalid argument",
      "unsupported", "build failed", "device lost",   "error"};
  static_assert(kNames.size() == OB_ERROR + 1);
  return kNames[status >= 0 && status < OB_ERROR ? status : OB_ERROR];
}

bool replace_invalid_utf8(char* text, size_t bytes) noexcept {
  bool any = false;
  for (size_t i = 0; i < bytes;) {
    const size_t length = character_bytes(text + i, bytes - i);
    if (length == 0) {
      text[i] = '?';
      any = true;
    }
    i += length == 0 ? 1 : length;
  }
  return any;
}

std::string driver_message(const ob_driver& table) {
  const char* text = table.last_error(table.context);
  if (text == nullptr || text[0] == '\0') return "it gave no reason";
  std::string message = text;
  replace_invalid_utf8(message.data(), message.size());
  return message;
}

void throw_status(ob_status status, const char* call) {
  const std::string message = status_message(status, call, "");
  const c10::SourceLocation where = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (status) {
    case OB_OUT_OF_MEMORY:
      throw c10::OutOfMemoryError(where, message);
    case OB_UNSUPPORTED:
      throw c10::NotImplementedError(where, message);
    case OB_BUILD_FAILED:
      throw c10::Error(where, message);
    case OB_INVALID_ARGUMENT:
      throw c10::ValueError(where, message);
    default:
      throw c10::AcceleratorError(where, status, message);
  }
}

void defer_status(ob_status status, const char* call) noexcept {
  if (status == OB_OK || status == OB_NOT_READY) return;
  try {
    const std::string message =
        status_message(status, call, " some time before this synchronization");
    const c10::SourceLocation where = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
    defer_failure(std::make_exception_ptr(c10::AcceleratorError(where, status, message)));
  } catch (...) {
    // Out of host memory: the failure is lost, the process is not.
  }
}

void defer_failure(std::exception_ptr failure) noexcept {
  const Locked<Deferred> all;
  if (all->failure == nullptr) all->failure = std::move(failure);
  g_failed.store(true, std::memory_order_release);
}

void forget_failure(const std::exception_ptr& failure) noexcept {
  const Locked<Deferred> all;
  if (all->failure != failure) return;
  all->failure = nullptr;
  g_failed.store(false, std::memory_order_release);
}

std::exception_ptr take_deferred_failure() noexcept {
  if (C10_LIKELY(!g_failed.load(std::memory_order_acquire))) return nullptr;
  const Locked<Deferred> all;
  g_failed.store(false, std::memory_order_release);
  return std::exchange(all->failure, nullptr);
}

void raise_deferred() {
  if (std::exception_ptr failure = take_deferred_failure()) std::rethrow_exception(failure);
  raise_asserts();
}

}  // namespace outboard
