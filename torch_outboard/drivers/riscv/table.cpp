// The RISC-V driver: kernels on another instruction set than the host's, with memory of their own,
// executed by an emulator. It is what a card with a processor of its own looks like from outside, and
// shows what a maker with a C compiler and no OpenCL has to write.
//
// riscv.h lists the parts, settings.cpp the environment variables. This file holds what surrounds
// them: messages, and the table, whose functions turn exceptions into statuses.
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "riscv.h"

namespace riscv {
namespace {

thread_local std::string t_message = "No call has failed in this thread.";
std::string g_no_device_reason;

const char* last_error(void*) { return t_message.c_str(); }

ob_status keep(ob_status status, std::string message) noexcept {
  t_message = std::move(message);
  return status;
}

std::string format_list(const char* text, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  std::string message(static_cast<size_t>(std::vsnprintf(nullptr, 0, text, arguments)), '\0');
  std::vsnprintf(message.data(), message.size() + 1, text, again);
  va_end(again);
  return message;
}

// A function of the table that no exception leaves.
template <auto function>
struct Guarded;

template <class... Arguments, ob_status (*function)(Arguments...)>
struct Guarded<function> {
  static ob_status call(void*, Arguments... arguments) noexcept {
    try {
      return function(arguments...);
    } catch (Failure& failure) {
      return keep(failure.status, std::move(failure.message));
    } catch (const std::bad_alloc&) {
      return keep(OB_OUT_OF_MEMORY, "The host has no memory.");
    } catch (const std::exception& error) {
      return keep(OB_ERROR, error.what());
    }
  }
};

ob_status initialize() {
  g_settings = read_settings();
  try {
    load_unicorn(g_settings);
    load_compiler(g_settings);
  } catch (const Failure& failure) {
    if (failure.status != OB_UNSUPPORTED) throw;
    g_no_device_reason = failure.message;
    g_settings.devices = 0;
  }
  for (int32_t i = 0; i < g_settings.devices; ++i) {
    g_devices.push_back(std::make_unique<Device>(i));
    create_memory(*g_devices.back());
  }
  return OB_OK;
}

// Memory stays mapped until the process ends: other threads may still look at tensors.
ob_status finalize() {
  stop_all_queues();
  return OB_OK;
}

ob_status device_count(int32_t* count) {
  *count = static_cast<int32_t>(g_devices.size());
  return *count == 0 ? keep(OB_OK, g_no_device_reason) : OB_OK;
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

}  // namespace riscv

extern "C" __attribute__((visibility("default"))) const ob_driver* ob_driver_table() {
  using namespace riscv;
  static const ob_driver table = [] {
    ob_driver t = {};
    t.major = OB_VERSION_MAJOR;
    t.minor = OB_VERSION_MINOR;
    t.struct_size = sizeof(ob_driver);
    t.name = "riscv";
    t.last_error = last_error;
#define SET(function) t.function = Guarded<function>::call
    SET(initialize);
    SET(finalize);
    SET(device_count);
    SET(device_properties);
    SET(allocate);
    SET(deallocate);
    SET(memory_info);
    SET(queue_create);
    SET(queue_destroy);
    SET(queue_query);
    SET(queue_synchronize);
    SET(event_create);
    SET(event_destroy);
    SET(event_record);
    SET(event_wait);
    SET(event_query);
    SET(event_synchronize);
    SET(event_elapsed);
    SET(copy_host_to_device);
    SET(copy_device_to_host);
    SET(copy_device_to_device);
    SET(fill);
    SET(host_callback);
    SET(program_build);
    SET(program_binary);
    SET(program_load);
    SET(program_release);
    SET(kernel_create);
    SET(kernel_release);
    SET(launch);
#undef SET
    return t;
  }();
  return &table;
}
