// The OpenCL driver: GPUs and other devices through the system's OpenCL loader, and a CPU through
// PoCL or Intel's driver, which come as Python packages. ocl.h lists the parts; this file holds the
// settings, which torch_outboard/setting_table.py describes, OpenCL's codes and the table, whose
// functions turn exceptions into statuses.
#include <common/settings.h>

#include <exception>

#include "ocl.h"

namespace ocl {

Settings read_settings() {
  using namespace drivers;
  Settings settings;
  settings.library = text_setting("OUTBOARD_OCL_LIBRARY");
  settings.devices = list_setting("OUTBOARD_OCL_DEVICES");
  settings.copies = number_setting("OUTBOARD_OCL_COPIES", 1, 16, 1);
  settings.memory = choice_setting("OUTBOARD_OCL_MEMORY", {"shared", "coarse", "handles"});
  settings.memory_bytes = number_setting("OUTBOARD_OCL_MEMORY_BYTES", 1, uint64_t{1} << 60, 0);
  settings.mask =
      list_setting("OUTBOARD_OCL_MASK", {"float16", "float64", "subgroups", "matrix_units"});
  settings.processor = text_setting("OUTBOARD_OCL_PROCESSOR");
  settings.events = choice_setting("OUTBOARD_OCL_EVENTS", {"each", "late"});
  settings.compiler_processes = number_setting("OUTBOARD_OCL_COMPILER_PROCESSES", 0, 64, 4);
  return settings;
}

namespace {

ob_status initialize() {
  find_devices();
  return OB_OK;
}

ob_status device_count(int32_t* count) {
  *count = static_cast<int32_t>(devices().size());
  return *count == 0 ? drivers::keep_message(OB_OK, no_device_reason()) : OB_OK;
}

// Contexts, queues and memory stay: other threads may still access tensors, and the process ends.
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
  stop_compilers();
  stop_workers();
  remove_temporary_pocl_cache();
  if (failure) std::rethrow_exception(failure);
  return OB_OK;
}

}  // namespace

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
  fail(status, "%s returned %s.", call, code_name(code).c_str());
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
    t.last_error = &drivers::last_error;
    OB_SET(t, initialize);
    OB_SET(t, finalize);
    OB_SET(t, device_count);
    OB_SET(t, device_properties);
    OB_SET(t, device_synchronize);
    set_memory_functions(t);
    set_queue_functions(t);
    set_event_functions(t);
    set_transfer_functions(t);
    set_program_functions(t);
    return t;
  }();
  return &table;
}

/* A report for users: libraries and devices, and the reasons why some are not used. Finds devices
 * if that was not done before. Valid until the next call. */
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
