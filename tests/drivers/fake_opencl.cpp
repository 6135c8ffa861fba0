// An OpenCL driver with devices of many kinds that do nothing: what the tests of ocl need beyond
// the devices of this machine. A fill with the byte 0xFF fails when it runs.
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "opencl.h"

namespace {

struct Object {
  void* const* table;
};

struct Device : Object {
  const char* name;
  cl_bitfield type;
  cl_bitfield svm;
  const char* extensions;
  cl_bool available;
};

struct Platform : Object {
  const char* name;
  const char* version;
  std::vector<Device*> devices;
};

struct Event : Object {
  cl_int status;
  int references;
};

cl_int answer(const void* value, size_t bytes, size_t room, void* result, size_t* needed) {
  if (needed != nullptr) *needed = bytes;
  if (result == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(result, value, bytes);
  return CL_SUCCESS;
}

cl_int answer(const char* text, size_t room, void* result, size_t* needed) {
  return answer(text, std::strlen(text) + 1, room, result, needed);
}

cl_int get_platform_info(cl_platform_id id, cl_uint what, size_t room, void* result,
                         size_t* needed) {
  const auto* platform = reinterpret_cast<Platform*>(id);
  const bool version = what == CL_PLATFORM_VERSION;
  return answer(version ? platform->version : platform->name, room, result, needed);
}

cl_int get_device_ids(cl_platform_id id, cl_bitfield, cl_uint room, cl_device_id* ids,
                      cl_uint* count) {
  const auto* platform = reinterpret_cast<Platform*>(id);
  if (count != nullptr) *count = static_cast<cl_uint>(platform->devices.size());
  for (size_t i = 0; ids != nullptr && i < room && i < platform->devices.size(); ++i) {
    ids[i] = reinterpret_cast<cl_device_id>(platform->devices[i]);
  }
  return platform->devices.empty() ? CL_DEVICE_NOT_FOUND : CL_SUCCESS;
}

cl_int get_device_info(cl_device_id id, cl_uint what, size_t room, void* result, size_t* needed) {
  const auto* device = reinterpret_cast<Device*>(id);
  const auto number = [&](auto value) {
    return answer(&value, sizeof value, room, result, needed);
  };
  switch (what) {
    case CL_DEVICE_TYPE:
      return number(device->type);
    case CL_DEVICE_AVAILABLE:
      return number(device->available);
    case CL_DEVICE_ENDIAN_LITTLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
      return number(cl_bool{CL_TRUE});
    case CL_DEVICE_SVM_CAPABILITIES:
      return number(device->svm);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
      return number(cl_bitfield{device->type == CL_DEVICE_TYPE_CPU});
    case CL_DEVICE_GLOBAL_MEM_SIZE:
      return number(cl_ulong{1} << 30);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      return number(cl_ulong{1} << 28);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      return number(size_t{256});
    case CL_DEVICE_NAME:
      return answer(device->name, room, result, needed);
    case CL_DEVICE_EXTENSIONS:
      return answer(device->extensions, room, result, needed);
    case CL_DEVICE_VENDOR:
    case CL_DRIVER_VERSION:
    case CL_DEVICE_VERSION:
      return answer("fake", room, result, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

Object g_context;
Object g_queue;

cl_context create_context(const intptr_t*, cl_uint, const cl_device_id*, cl_context_callback, void*,
                          cl_int* code) {
  *code = CL_SUCCESS;
  return reinterpret_cast<cl_context>(&g_context);
}

cl_command_queue create_queue(cl_context, cl_device_id, cl_bitfield, cl_int* code) {
  *code = CL_SUCCESS;
  return reinterpret_cast<cl_command_queue>(&g_queue);
}

cl_int release_queue(cl_command_queue) { return CL_SUCCESS; }
cl_int flush(cl_command_queue) { return CL_SUCCESS; }

cl_mem create_buffer(cl_context, cl_bitfield, size_t, void*, cl_int* code) {
  *code = CL_SUCCESS;
  return reinterpret_cast<cl_mem>(new Object(g_context));
}

cl_int release_memory(cl_mem memory) {
  delete reinterpret_cast<Object*>(memory);
  return CL_SUCCESS;
}

cl_int g_last_status = CL_COMPLETE;  // of all queues

cl_int fill(cl_command_queue, cl_mem, const void* pattern, size_t, size_t, size_t, cl_uint,
            const cl_event*, cl_event* event) {
  const bool fails = *static_cast<const unsigned char*>(pattern) == 0xFF;
  g_last_status = fails ? CL_OUT_OF_RESOURCES : CL_COMPLETE;
  if (event != nullptr) *event = reinterpret_cast<cl_event>(new Event{g_queue, g_last_status, 1});
  return CL_SUCCESS;
}

// Fails with what it stands behind, as real ones do.
cl_int marker(cl_command_queue, cl_uint, const cl_event*, cl_event* event) {
  *event = reinterpret_cast<cl_event>(new Event{g_queue, g_last_status, 1});
  return CL_SUCCESS;
}

cl_int retain_event(cl_event id) {
  ++reinterpret_cast<Event*>(id)->references;
  return CL_SUCCESS;
}

cl_int release_event(cl_event id) {
  auto* event = reinterpret_cast<Event*>(id);
  if (--event->references == 0) delete event;
  return CL_SUCCESS;
}

cl_int get_event_info(cl_event id, cl_uint, size_t room, void* result, size_t* needed) {
  const cl_int status = reinterpret_cast<Event*>(id)->status;
  return answer(&status, sizeof status, room, result, needed);
}

cl_int wait_for_events(cl_uint, const cl_event* ids) {
  const bool failed = reinterpret_cast<Event*>(*ids)->status < 0;
  return failed ? CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST : CL_SUCCESS;
}

// Slots of the table as in cl_khr_icd.
void* const* table() {
  static std::vector<void*> entries = [] {
    std::vector<void*> t(150, nullptr);
    const auto set = [&](size_t slot, auto* function) {
      t[slot] = reinterpret_cast<void*>(function);
    };
    set(1, &get_platform_info);
    set(2, &get_device_ids);
    set(3, &get_device_info);
    set(4, &create_context);
    set(9, &create_queue);
    set(11, &release_queue);
    set(14, &create_buffer);
    set(18, &release_memory);
    set(41, &wait_for_events);
    set(42, &get_event_info);
    set(43, &retain_event);
    set(44, &release_event);
    set(46, &flush);
    set(102, &fill);
    set(105, &marker);
    // That they are there is all that is asked of these.
    set(123, &create_queue);
    set(126, &create_buffer);
    return t;
  }();
  return entries.data();
}

cl_int get_platform_ids(cl_uint room, cl_platform_id* ids, cl_uint* count) {
  static std::vector<Platform*> platforms = [] {
    constexpr cl_bitfield kCoarse = CL_DEVICE_SVM_COARSE_GRAIN_BUFFER;
    constexpr cl_bitfield kFine = kCoarse | CL_DEVICE_SVM_FINE_GRAIN_BUFFER;
    const Object base = {table()};
    g_context = g_queue = base;
    const auto device = [&](const char* name, cl_bitfield type, cl_bitfield svm,
                            const char* extensions, bool available) {
      return new Device{base, name, type, svm, extensions, available ? CL_TRUE : CL_FALSE};
    };
    return std::vector<Platform*>{
        new Platform{base, "Ancient", "OpenCL 1.1 fake", {}},
        new Platform{
            base,
            "Fake",
            "OpenCL 3.0 fake",
            {
                device("first processor", CL_DEVICE_TYPE_CPU, kFine, "cl_khr_icd", true),
                device("dsp", CL_DEVICE_TYPE_ACCELERATOR, kCoarse, "", true),
                device("broken card", CL_DEVICE_TYPE_GPU, 0, "", false),
                device("small card", CL_DEVICE_TYPE_GPU, 0, "", true),
                device("large card", CL_DEVICE_TYPE_GPU, kFine,
                       "cl_khr_fp16 cl_khr_priority_hints cl_khr_int64_base_atomics", true),
            }},
        new Platform{
            base,
            "Old",
            "OpenCL 1.2 fake",
            {device("old card", CL_DEVICE_TYPE_GPU, kFine, "cl_khr_priority_hints", true)}},
        new Platform{
            base, "Fake", "OpenCL 2.0 fake", {device("twin", CL_DEVICE_TYPE_GPU, 0, "", true)}},
        new Platform{base, "Empty", "OpenCL 2.0 fake", {}},
    };
  }();
  // FAKE_OPENCL=empty: a machine with a platform and no device.
  const char* setting = std::getenv("FAKE_OPENCL");
  const bool empty = setting != nullptr && std::strcmp(setting, "empty") == 0;
  const std::vector<Platform*> shown(empty ? platforms.end() - 1 : platforms.begin(),
                                     platforms.end());
  if (count != nullptr) *count = static_cast<cl_uint>(shown.size());
  for (size_t i = 0; ids != nullptr && i < room && i < shown.size(); ++i) {
    ids[i] = reinterpret_cast<cl_platform_id>(shown[i]);
  }
  return CL_SUCCESS;
}

}  // namespace

extern "C" void* clGetExtensionFunctionAddress(const char* name) {
  const bool known = std::string(name) == "clIcdGetPlatformIDsKHR";
  return known ? reinterpret_cast<void*>(&get_platform_ids) : nullptr;
}
