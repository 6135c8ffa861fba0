// An OpenCL driver with one GPU that does nothing, for the host's side of a launch: every call
// returns at once and is counted, kernels compute nothing, copies move bytes, and all work is done
// when it is enqueued. Its properties are those of an NVIDIA H100.
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "opencl.h"

namespace {

// The first field of every object points to the table of functions (cl_khr_icd).
struct Object {
  void* const* table;
};

struct Buffer : Object {
  char* bytes;
  size_t size;
};

struct Program : Object {
  std::atomic<int> references;
  std::string source;
};

struct Kernel : Object {
  Program* program;
};

struct Event : Object {
  std::atomic<int> references;
};

Object g_platform, g_device, g_context, g_queue;

constexpr cl_uint kLastPlace = 150;
constexpr cl_uint CL_PROGRAM_SOURCE = 0x1164;  // the driver does not ask for it
std::atomic<uint64_t> g_calls[kLastPlace];
std::atomic<uint64_t> g_blocking;  // copies that the host waits for

// Counts a call; `place` is the index of the function in the table.
void count(cl_uint place) { g_calls[place].fetch_add(1, std::memory_order_relaxed); }

enum Place : cl_uint {
#define OUTBOARD_PLACE(place, result, name, arguments) k_##name = place,
  OUTBOARD_OPENCL_1_2(OUTBOARD_PLACE) OUTBOARD_OPENCL_2_0(OUTBOARD_PLACE)
#undef OUTBOARD_PLACE
};

template <class T>
T made(T value, cl_int* code) {
  if (code != nullptr) *code = CL_SUCCESS;
  return value;
}

template <class Handle, class T>
Handle handle(T* object) {
  return reinterpret_cast<Handle>(static_cast<Object*>(object));
}

template <class T, class Handle>
T& object(Handle handle) {
  return *static_cast<T*>(reinterpret_cast<Object*>(handle));
}

cl_int answer(const void* value, size_t bytes, size_t room, void* result, size_t* needed) {
  if (needed != nullptr) *needed = bytes;
  if (result == nullptr) return CL_SUCCESS;
  if (room < bytes) return CL_INVALID_VALUE;
  std::memcpy(result, value, bytes);
  return CL_SUCCESS;
}

cl_int answer(const std::string& text, size_t room, void* result, size_t* needed) {
  return answer(text.c_str(), text.size() + 1, room, result, needed);
}

template <class T>
cl_int answer_number(T value, size_t room, void* result, size_t* needed) {
  return answer(&value, sizeof value, room, result, needed);
}

void give_event(cl_event* event) {
  if (event != nullptr) *event = handle<cl_event>(new Event{g_queue, 1});
}

// ---- Platform and device

cl_int get_platform_info(cl_platform_id, cl_uint what, size_t room, void* result, size_t* needed) {
  return answer(what == CL_PLATFORM_VERSION ? "OpenCL 3.0 CUDA stub" : "NVIDIA CUDA", room, result,
                needed);
}

cl_int get_device_ids(cl_platform_id, cl_bitfield, cl_uint, cl_device_id* ids, cl_uint* count) {
  if (count != nullptr) *count = 1;
  if (ids != nullptr) ids[0] = handle<cl_device_id>(&g_device);
  return CL_SUCCESS;
}

cl_int get_device_info(cl_device_id, cl_uint what, size_t room, void* result, size_t* needed) {
  const auto number = [&](auto value) { return answer_number(value, room, result, needed); };
  switch (what) {
    case CL_DEVICE_TYPE:
      return number(cl_bitfield{CL_DEVICE_TYPE_GPU});
    case CL_DEVICE_AVAILABLE:
    case CL_DEVICE_ENDIAN_LITTLE:
    case CL_DEVICE_COMPILER_AVAILABLE:
      return number(cl_bool{CL_TRUE});
    case CL_DEVICE_SVM_CAPABILITIES:
      return number(cl_bitfield{CL_DEVICE_SVM_COARSE_GRAIN_BUFFER});
    case CL_DEVICE_GLOBAL_MEM_SIZE:
      return number(cl_ulong{80} << 30);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
      return number(cl_ulong{20} << 30);
    case CL_DEVICE_LOCAL_MEM_SIZE:
      return number(cl_ulong{48} << 10);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
      return number(size_t{1024});
    case CL_DEVICE_MAX_COMPUTE_UNITS:
      return number(cl_uint{132});
    case CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT:
      return number(cl_uint{1});
    case CL_DEVICE_DOUBLE_FP_CONFIG:
      return number(cl_bitfield{63});
    case CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV:
      return number(cl_uint{9});
    case CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV:
      return number(cl_uint{0});
    case CL_DEVICE_EXTENSIONS:
      return answer(
          "cl_khr_global_int32_base_atomics cl_khr_int64_base_atomics cl_khr_fp64 cl_khr_icd "
          "cl_nv_compiler_options cl_nv_device_attribute_query",
          room, result, needed);
    case CL_DEVICE_NAME:
    case CL_DEVICE_VENDOR:
    case CL_DRIVER_VERSION:
    case CL_DEVICE_VERSION:
      return answer("stub", room, result, needed);
    default:
      return CL_INVALID_VALUE;
  }
}

cl_context create_context(const intptr_t*, cl_uint, const cl_device_id*, cl_context_callback, void*,
                          cl_int* code) {
  return made(handle<cl_context>(&g_context), code);
}

// ---- Queues and events

cl_command_queue create_queue(cl_context, cl_device_id, cl_bitfield, cl_int* code) {
  return made(handle<cl_command_queue>(&g_queue), code);
}

cl_command_queue create_queue_with(cl_context, cl_device_id, const cl_properties*, cl_int* code) {
  return made(handle<cl_command_queue>(&g_queue), code);
}

cl_int release_queue(cl_command_queue) { return CL_SUCCESS; }

cl_int flush(cl_command_queue) {
  count(k_clFlush);
  return CL_SUCCESS;
}

cl_int marker(cl_command_queue, cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueMarkerWithWaitList);
  give_event(event);
  return CL_SUCCESS;
}

cl_int barrier(cl_command_queue, cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueBarrierWithWaitList);
  give_event(event);
  return CL_SUCCESS;
}

cl_event create_user_event(cl_context, cl_int* code) {
  return made(handle<cl_event>(new Event{g_queue, 1}), code);
}

cl_int set_user_event_status(cl_event, cl_int) { return CL_SUCCESS; }

cl_int set_event_callback(cl_event event, cl_int, cl_event_callback function, void* argument) {
  function(event, CL_COMPLETE, argument);
  return CL_SUCCESS;
}

cl_int retain_event(cl_event event) {
  ++object<Event>(event).references;
  return CL_SUCCESS;
}

cl_int release_event(cl_event event) {
  if (--object<Event>(event).references == 0) delete &object<Event>(event);
  return CL_SUCCESS;
}

cl_int wait_for_events(cl_uint, const cl_event*) {
  count(k_clWaitForEvents);
  return CL_SUCCESS;
}

cl_int get_event_info(cl_event, cl_uint, size_t room, void* result, size_t* needed) {
  count(k_clGetEventInfo);
  return answer_number(cl_int{CL_COMPLETE}, room, result, needed);
}

cl_int get_profiling_info(cl_event, cl_uint, size_t room, void* result, size_t* needed) {
  return answer_number(cl_ulong{1}, room, result, needed);
}

// ---- Memory: untouched pages take no memory of the host

cl_mem create_buffer(cl_context, cl_bitfield, size_t size, void*, cl_int* code) {
  count(k_clCreateBuffer);
  void* bytes = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (bytes == MAP_FAILED) {
    *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
    return nullptr;
  }
  return made(handle<cl_mem>(new Buffer{g_context, static_cast<char*>(bytes), size}), code);
}

cl_int release_memory(cl_mem memory) {
  const Buffer* buffer = &object<Buffer>(memory);
  munmap(buffer->bytes, buffer->size);
  delete buffer;
  return CL_SUCCESS;
}

void* map_buffer(cl_command_queue, cl_mem memory, cl_bool, cl_bitfield, size_t offset, size_t,
                 cl_uint, const cl_event*, cl_event* event, cl_int* code) {
  give_event(event);
  return made(object<Buffer>(memory).bytes + offset, code);
}

cl_int unmap(cl_command_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event* event) {
  give_event(event);
  return CL_SUCCESS;
}

cl_int read(cl_command_queue, cl_mem from, cl_bool blocking, size_t offset, size_t size, void* to,
            cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueReadBuffer);
  g_blocking += blocking;
  std::memcpy(to, object<Buffer>(from).bytes + offset, size);
  give_event(event);
  return CL_SUCCESS;
}

cl_int write(cl_command_queue, cl_mem to, cl_bool blocking, size_t offset, size_t size,
             const void* from, cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueWriteBuffer);
  g_blocking += blocking;
  std::memcpy(object<Buffer>(to).bytes + offset, from, size);
  give_event(event);
  return CL_SUCCESS;
}

cl_int copy(cl_command_queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
            size_t size, cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueCopyBuffer);
  std::memmove(object<Buffer>(to).bytes + to_offset, object<Buffer>(from).bytes + from_offset,
               size);
  give_event(event);
  return CL_SUCCESS;
}

cl_int fill(cl_command_queue, cl_mem to, const void* pattern, size_t width, size_t offset,
            size_t size, cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueFillBuffer);
  for (size_t i = 0; i < size; i += width) {
    std::memcpy(object<Buffer>(to).bytes + offset + i, pattern, width);
  }
  give_event(event);
  return CL_SUCCESS;
}

// Rectangles are not copied.
cl_int read_rectangle(cl_command_queue, cl_mem, cl_bool blocking, const size_t*, const size_t*,
                      const size_t*, size_t, size_t, size_t, size_t, void*, cl_uint,
                      const cl_event*, cl_event* event) {
  count(k_clEnqueueReadBufferRect);
  g_blocking += blocking;
  give_event(event);
  return CL_SUCCESS;
}

cl_int write_rectangle(cl_command_queue, cl_mem, cl_bool blocking, const size_t*, const size_t*,
                       const size_t*, size_t, size_t, size_t, size_t, const void*, cl_uint,
                       const cl_event*, cl_event* event) {
  count(k_clEnqueueWriteBufferRect);
  g_blocking += blocking;
  give_event(event);
  return CL_SUCCESS;
}

cl_int copy_rectangle(cl_command_queue, cl_mem, cl_mem, const size_t*, const size_t*, const size_t*,
                      size_t, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueCopyBufferRect);
  give_event(event);
  return CL_SUCCESS;
}

// ---- Programs: every source builds, and every kernel name exists

cl_program create_program(cl_context, cl_uint parts, const char** texts, const size_t*,
                          cl_int* code) {
  auto* program = new Program{g_context, 1, {}};
  for (cl_uint i = 0; i < parts; ++i) program->source += texts[i];
  return made(handle<cl_program>(program), code);
}

cl_int build_program(cl_program, cl_uint, const cl_device_id*, const char*, cl_program_callback,
                     void*) {
  return CL_SUCCESS;
}

void release(Program& program) {
  if (--program.references == 0) delete &program;
}

cl_int release_program(cl_program program) {
  release(object<Program>(program));
  return CL_SUCCESS;
}

// There are no binaries, so the cache of programs stays empty.
cl_int get_program_info(cl_program program, cl_uint what, size_t room, void* result,
                        size_t* needed) {
  if (what == CL_PROGRAM_SOURCE)
    return answer(object<Program>(program).source, room, result, needed);
  return answer_number(size_t{0}, room, result, needed);
}

cl_int get_build_info(cl_program, cl_device_id, cl_uint, size_t room, void* result,
                      size_t* needed) {
  return answer("", room, result, needed);
}

cl_kernel create_kernel(cl_program program, const char*, cl_int* code) {
  ++object<Program>(program).references;
  return made(handle<cl_kernel>(new Kernel{g_context, &object<Program>(program)}), code);
}

cl_int release_kernel(cl_kernel kernel) {
  release(*object<Kernel>(kernel).program);
  delete &object<Kernel>(kernel);
  return CL_SUCCESS;
}

cl_int set_argument(cl_kernel, cl_uint, size_t, const void*) {
  count(k_clSetKernelArg);
  return CL_SUCCESS;
}

cl_int get_work_group_info(cl_kernel, cl_device_id, cl_uint what, size_t room, void* result,
                           size_t* needed) {
  if (what == CL_KERNEL_WORK_GROUP_SIZE) return answer_number(size_t{1024}, room, result, needed);
  return answer_number(cl_ulong{0}, room, result, needed);
}

cl_int launch(cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*,
              cl_uint, const cl_event*, cl_event* event) {
  count(k_clEnqueueNDRangeKernel);
  give_event(event);
  return CL_SUCCESS;
}

// ---- The table

void* const* table() {
  static std::vector<void*> entries = [] {
    std::vector<void*> t(kLastPlace, nullptr);
    const auto set = [&](Place place, auto* function) {
      t[place] = reinterpret_cast<void*>(function);
    };
    set(k_clGetPlatformInfo, &get_platform_info);
    set(k_clGetDeviceIDs, &get_device_ids);
    set(k_clGetDeviceInfo, &get_device_info);
    set(k_clCreateContext, &create_context);
    set(k_clCreateCommandQueue, &create_queue);
    set(k_clReleaseCommandQueue, &release_queue);
    set(k_clCreateBuffer, &create_buffer);
    set(k_clReleaseMemObject, &release_memory);
    set(k_clCreateProgramWithSource, &create_program);
    set(k_clReleaseProgram, &release_program);
    set(k_clBuildProgram, &build_program);
    set(k_clGetProgramInfo, &get_program_info);
    set(k_clGetProgramBuildInfo, &get_build_info);
    set(k_clCreateKernel, &create_kernel);
    set(k_clReleaseKernel, &release_kernel);
    set(k_clSetKernelArg, &set_argument);
    set(k_clGetKernelWorkGroupInfo, &get_work_group_info);
    set(k_clWaitForEvents, &wait_for_events);
    set(k_clGetEventInfo, &get_event_info);
    set(k_clRetainEvent, &retain_event);
    set(k_clReleaseEvent, &release_event);
    set(k_clGetEventProfilingInfo, &get_profiling_info);
    set(k_clFlush, &flush);
    set(k_clEnqueueReadBuffer, &read);
    set(k_clEnqueueWriteBuffer, &write);
    set(k_clEnqueueCopyBuffer, &copy);
    set(k_clEnqueueMapBuffer, &map_buffer);
    set(k_clEnqueueUnmapMemObject, &unmap);
    set(k_clEnqueueNDRangeKernel, &launch);
    set(k_clSetEventCallback, &set_event_callback);
    set(k_clCreateUserEvent, &create_user_event);
    set(k_clSetUserEventStatus, &set_user_event_status);
    set(k_clEnqueueReadBufferRect, &read_rectangle);
    set(k_clEnqueueWriteBufferRect, &write_rectangle);
    set(k_clEnqueueCopyBufferRect, &copy_rectangle);
    set(k_clEnqueueFillBuffer, &fill);
    set(k_clEnqueueMarkerWithWaitList, &marker);
    set(k_clEnqueueBarrierWithWaitList, &barrier);
    set(k_clCreateCommandQueueWithProperties, &create_queue_with);
    return t;
  }();
  return entries.data();
}

cl_int get_platform_ids(cl_uint, cl_platform_id* ids, cl_uint* number) {
  for (Object* each : {&g_platform, &g_device, &g_context, &g_queue}) each->table = table();
  if (number != nullptr) *number = 1;
  if (ids != nullptr) ids[0] = handle<cl_platform_id>(&g_platform);
  return CL_SUCCESS;
}

}  // namespace

extern "C" void* clGetExtensionFunctionAddress(const char* name) {
  const bool known = std::string_view(name) == "clIcdGetPlatformIDsKHR";
  return known ? reinterpret_cast<void*>(&get_platform_ids) : nullptr;
}

// The number of calls of a counted function; "blocking": copies that the host waits for.
extern "C" uint64_t stub_opencl_calls(const char* function) {
  static const std::map<std::string_view, cl_uint> places = {
#define OUTBOARD_PLACE(place, result, name, arguments) {#name, place},
      OUTBOARD_OPENCL_1_2(OUTBOARD_PLACE) OUTBOARD_OPENCL_2_0(OUTBOARD_PLACE)
#undef OUTBOARD_PLACE
  };
  if (std::string_view(function) == "blocking") return g_blocking;
  const auto found = places.find(function);
  return found == places.end() ? 0 : g_calls[found->second].load();
}
