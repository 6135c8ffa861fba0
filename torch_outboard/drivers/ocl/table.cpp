// The OpenCL driver: GPUs and other devices through the system's OpenCL loader, and a CPU through
// PoCL or Intel's driver, which come as Python packages.
//
// ocl.h lists the parts, settings.cpp the environment variables. This file holds what surrounds
// them: messages, and the table, whose functions turn exceptions into statuses.
#include <cstdarg>
#include <cstdio>
#include <exception>
#include <new>
#include <utility>

#include "ocl.h"

namespace ocl {
namespace {

thread_local std::string t_message = "No call has failed in this thread.";

const char* last_error(void*) { return t_message.c_str(); }

ob_status keep(ob_status status, std::string message) noexcept {
  t_message = std::move(message);
  return status;
}

// A function of the table that no exception leaves. There is one OpenCL, so no context.
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
  find_devices();
  return OB_OK;
}

ob_status device_count(int32_t* count) {
  *count = static_cast<int32_t>(devices().size());
  return *count == 0 ? keep(OB_OK, no_device_reason()) : OB_OK;
}

// Contexts, queues and memory stay: other threads may still look at tensors, and the process ends.
ob_status finalize() {
  std::exception_ptr failure;
  for (const auto& device : devices()) {
    try {
      device_synchronize(device->index);
    } catch (...) {
      failure = std::current_exception();
    }
  }
  g_ended = true;
  stop_workers();
  if (failure) std::rethrow_exception(failure);
  return OB_OK;
}

}  // namespace

void fail(ob_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  va_list again;
  va_copy(again, arguments);
  std::string message(static_cast<size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  va_end(arguments);
  std::vsnprintf(message.data(), message.size() + 1, format, again);
  va_end(again);
  throw Failure{status, std::move(message)};
}

std::string code_name(cl_int code) {
  const char* name = nullptr;
  switch (code) {
#define OUTBOARD_NAME(constant) \
  case constant:                \
    name = #constant;           \
    break;
    OUTBOARD_NAME(CL_DEVICE_NOT_FOUND)
    OUTBOARD_NAME(CL_DEVICE_NOT_AVAILABLE)
    OUTBOARD_NAME(CL_COMPILER_NOT_AVAILABLE)
    OUTBOARD_NAME(CL_MEM_OBJECT_ALLOCATION_FAILURE)
    OUTBOARD_NAME(CL_OUT_OF_RESOURCES)
    OUTBOARD_NAME(CL_OUT_OF_HOST_MEMORY)
    OUTBOARD_NAME(CL_BUILD_PROGRAM_FAILURE)
    OUTBOARD_NAME(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
    OUTBOARD_NAME(CL_INVALID_VALUE)
    OUTBOARD_NAME(CL_INVALID_BINARY)
    OUTBOARD_NAME(CL_INVALID_BUILD_OPTIONS)
    OUTBOARD_NAME(CL_INVALID_KERNEL_NAME)
    OUTBOARD_NAME(CL_INVALID_KERNEL_ARGS)
    OUTBOARD_NAME(CL_INVALID_WORK_GROUP_SIZE)
#undef OUTBOARD_NAME
    default:
      return "code " + std::to_string(code);
  }
  return std::string(name) + " (" + std::to_string(code) + ")";
}

void check(cl_int code, const char* call) {
  if (code == CL_SUCCESS) return;
  ob_status status = OB_ERROR;
  if (code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY) {
    status = OB_OUT_OF_MEMORY;
  } else if (code == CL_DEVICE_NOT_AVAILABLE) {
    status = OB_DEVICE_LOST;
  } else if (code <= CL_INVALID_VALUE) {
    status = OB_INVALID_ARGUMENT;
  }
  fail(status, "%s answered %s.", call, code_name(code).c_str());
}

}  // namespace ocl

extern "C" __attribute__((visibility("default"))) const ob_driver* ob_driver_table() {
  using namespace ocl;  // the names of the contract
  static const ob_driver table = [] {
    ob_driver t = {};
    t.major = OB_VERSION_MAJOR;
    t.minor = OB_VERSION_MINOR;
    t.struct_size = sizeof(ob_driver);
    t.name = "ocl";
    t.last_error = &last_error;
    t.initialize = &Guarded<initialize>::call;
    t.finalize = &Guarded<finalize>::call;
    t.device_count = &Guarded<device_count>::call;
#define OUTBOARD_SET(name) t.name = &Guarded<ocl::name>::call;
    OUTBOARD_SET(device_properties)
    OUTBOARD_SET(peer_access)
    OUTBOARD_SET(allocate)
    OUTBOARD_SET(deallocate)
    OUTBOARD_SET(memory_info)
    OUTBOARD_SET(host_allocate)
    OUTBOARD_SET(host_deallocate)
    OUTBOARD_SET(queue_create)
    OUTBOARD_SET(queue_destroy)
    OUTBOARD_SET(queue_query)
    OUTBOARD_SET(queue_synchronize)
    OUTBOARD_SET(device_synchronize)
    OUTBOARD_SET(queue_native_handle)
    OUTBOARD_SET(event_create)
    OUTBOARD_SET(event_destroy)
    OUTBOARD_SET(event_record)
    OUTBOARD_SET(event_wait)
    OUTBOARD_SET(event_query)
    OUTBOARD_SET(event_synchronize)
    OUTBOARD_SET(event_elapsed)
    OUTBOARD_SET(copy_host_to_device)
    OUTBOARD_SET(copy_device_to_host)
    OUTBOARD_SET(copy_device_to_device)
    OUTBOARD_SET(copy_peer)
    OUTBOARD_SET(copy_host_to_device_2d)
    OUTBOARD_SET(copy_device_to_host_2d)
    OUTBOARD_SET(copy_device_to_device_2d)
    OUTBOARD_SET(fill)
    OUTBOARD_SET(host_callback)
    OUTBOARD_SET(program_build)
    OUTBOARD_SET(program_binary)
    OUTBOARD_SET(program_load)
    OUTBOARD_SET(program_release)
    OUTBOARD_SET(kernel_create)
    OUTBOARD_SET(kernel_release)
    OUTBOARD_SET(kernel_attributes)
    OUTBOARD_SET(launch)
    OUTBOARD_SET(event_time)
#undef OUTBOARD_SET
    return t;
  }();
  return &table;
}

/* What was found on this machine and why something is not used, for people. Looks for devices if
 * nobody did before. Static text, valid until the next call. */
extern "C" __attribute__((visibility("default"))) const char* ob_ocl_describe() {
  static std::string text;
  try {
    ocl::find_devices();
    text = ocl::discovery_report();
  } catch (const ocl::Failure& failure) {
    text = ocl::discovery_report() + failure.message + "\n";
  } catch (const std::exception& error) {
    text = error.what();
  }
  return text.c_str();
}
