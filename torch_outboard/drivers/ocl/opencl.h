/*
 * The part of OpenCL that this driver uses: types, constants, and functions as a table.
 *
 * OpenCL's own headers are on few machines. Names and numbers are those of the Khronos
 * specification.
 */
#ifndef OUTBOARD_DRIVERS_OCL_OPENCL_H
#define OUTBOARD_DRIVERS_OCL_OPENCL_H

#include <cstddef>
#include <cstdint>

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bool = cl_uint;
using cl_bitfield = cl_ulong;
using cl_properties = cl_ulong;

using cl_platform_id = struct cl_platform_object*;
using cl_device_id = struct cl_device_object*;
using cl_context = struct cl_context_object*;
using cl_command_queue = struct cl_command_queue_object*;
using cl_mem = struct cl_mem_object*;
using cl_program = struct cl_program_object*;
using cl_kernel = struct cl_kernel_object*;
using cl_event = struct cl_event_object*;

using cl_context_callback = void (*)(const char*, const void*, size_t, void*);
using cl_program_callback = void (*)(cl_program, void*);
using cl_event_callback = void (*)(cl_event, cl_int, void*);

enum : cl_int {
  CL_SUCCESS = 0,
  CL_COMPLETE = 0, /* of an event; before the end positive, after a failure negative */
  CL_DEVICE_NOT_FOUND = -1,
  CL_DEVICE_NOT_AVAILABLE = -2,
  CL_COMPILER_NOT_AVAILABLE = -3,
  CL_MEM_OBJECT_ALLOCATION_FAILURE = -4,
  CL_OUT_OF_RESOURCES = -5,
  CL_OUT_OF_HOST_MEMORY = -6,
  CL_BUILD_PROGRAM_FAILURE = -11,
  CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST = -14,
  /* From here on: an argument is wrong. */
  CL_INVALID_VALUE = -30,
  CL_INVALID_BINARY = -42,
  CL_INVALID_BUILD_OPTIONS = -43,
  CL_INVALID_KERNEL_NAME = -46,
  CL_INVALID_KERNEL_ARGS = -52,
  CL_INVALID_WORK_GROUP_SIZE = -54,
};

enum : cl_bool { CL_FALSE = 0, CL_TRUE = 1 };

enum : cl_uint {
  CL_PLATFORM_VERSION = 0x0901,
  CL_PLATFORM_NAME = 0x0902,
  CL_DEVICE_TYPE = 0x1000,
  CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002,
  CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004,
  CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT = 0x100A,
  CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
  CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  CL_DEVICE_LOCAL_MEM_SIZE = 0x1023,
  CL_DEVICE_ENDIAN_LITTLE = 0x1026,
  CL_DEVICE_AVAILABLE = 0x1027,
  CL_DEVICE_COMPILER_AVAILABLE = 0x1028,
  CL_DEVICE_NAME = 0x102B,
  CL_DEVICE_VENDOR = 0x102C,
  CL_DRIVER_VERSION = 0x102D,
  CL_DEVICE_VERSION = 0x102F,
  CL_DEVICE_EXTENSIONS = 0x1030,
  CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032,
  CL_DEVICE_SVM_CAPABILITIES = 0x1053,
  CL_CONTEXT_PLATFORM = 0x1084,
  CL_QUEUE_PROPERTIES = 0x1093,
  CL_QUEUE_PRIORITY_KHR = 0x1096,
  CL_PROGRAM_BINARY_SIZES = 0x1165,
  CL_PROGRAM_BINARIES = 0x1166,
  CL_PROGRAM_BUILD_LOG = 0x1183,
  CL_KERNEL_WORK_GROUP_SIZE = 0x11B0,
  CL_KERNEL_LOCAL_MEM_SIZE = 0x11B2,
  CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3,
  CL_PROFILING_COMMAND_QUEUED = 0x1280,
  CL_PROFILING_COMMAND_START = 0x1282,
  CL_PROFILING_COMMAND_END = 0x1283,
  CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV = 0x4000,
  CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV = 0x4001,
};

enum : cl_bitfield {
  CL_DEVICE_TYPE_CPU = 1 << 1,
  CL_DEVICE_TYPE_GPU = 1 << 2,
  CL_DEVICE_TYPE_ACCELERATOR = 1 << 3,
  CL_DEVICE_TYPE_ALL = 0xFFFFFFFF,
  CL_DEVICE_SVM_COARSE_GRAIN_BUFFER = 1 << 0,
  CL_DEVICE_SVM_FINE_GRAIN_BUFFER = 1 << 1,
  CL_DEVICE_SVM_FINE_GRAIN_SYSTEM = 1 << 2,
  CL_QUEUE_PROFILING_ENABLE = 1 << 1,
  CL_QUEUE_PRIORITY_HIGH_KHR = 1 << 0,
  CL_QUEUE_PRIORITY_MED_KHR = 1 << 1,
  CL_QUEUE_PRIORITY_LOW_KHR = 1 << 2,
  CL_MEM_READ_WRITE = 1 << 0,
  CL_MEM_ALLOC_HOST_PTR = 1 << 4,
  CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10,
  CL_MAP_READ = 1 << 0,
  CL_MAP_WRITE = 1 << 1,
};

/*
 * The functions: X(index, result, name, arguments). `index` is that in the dispatch table of the
 * extension cl_khr_icd, to which the first word of every object of an installable driver points.
 * Functions of OpenCL 1.2 precede index 108, later ones are of OpenCL 2.0. Those that write have
 * the types of those that read.
 */
#define OUTBOARD_OPENCL_1_2(X)                                                                   \
  X(1, cl_int, clGetPlatformInfo, (cl_platform_id, cl_uint, size_t, void*, size_t*))             \
  X(2, cl_int, clGetDeviceIDs, (cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*))  \
  X(3, cl_int, clGetDeviceInfo, (cl_device_id, cl_uint, size_t, void*, size_t*))                 \
  X(4, cl_context, clCreateContext,                                                              \
    (const intptr_t*, cl_uint, const cl_device_id*, cl_context_callback, void*, cl_int*))        \
  X(9, cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_bitfield, cl_int*)) \
  X(11, cl_int, clReleaseCommandQueue, (cl_command_queue))                                       \
  X(14, cl_mem, clCreateBuffer, (cl_context, cl_bitfield, size_t, void*, cl_int*))               \
  X(18, cl_int, clReleaseMemObject, (cl_mem))                                                    \
  X(26, cl_program, clCreateProgramWithSource,                                                   \
    (cl_context, cl_uint, const char**, const size_t*, cl_int*))                                 \
  X(27, cl_program, clCreateProgramWithBinary,                                                   \
    (cl_context, cl_uint, const cl_device_id*, const size_t*, const unsigned char**, cl_int*,    \
     cl_int*))                                                                                   \
  X(29, cl_int, clReleaseProgram, (cl_program))                                                  \
  X(30, cl_int, clBuildProgram,                                                                  \
    (cl_program, cl_uint, const cl_device_id*, const char*, cl_program_callback, void*))         \
  X(32, cl_int, clGetProgramInfo, (cl_program, cl_uint, size_t, void*, size_t*))                 \
  X(33, cl_int, clGetProgramBuildInfo,                                                           \
    (cl_program, cl_device_id, cl_uint, size_t, void*, size_t*))                                 \
  X(34, cl_kernel, clCreateKernel, (cl_program, const char*, cl_int*))                           \
  X(37, cl_int, clReleaseKernel, (cl_kernel))                                                    \
  X(38, cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void*))                       \
  X(40, cl_int, clGetKernelWorkGroupInfo,                                                        \
    (cl_kernel, cl_device_id, cl_uint, size_t, void*, size_t*))                                  \
  X(41, cl_int, clWaitForEvents, (cl_uint, const cl_event*))                                     \
  X(42, cl_int, clGetEventInfo, (cl_event, cl_uint, size_t, void*, size_t*))                     \
  X(43, cl_int, clRetainEvent, (cl_event))                                                       \
  X(44, cl_int, clReleaseEvent, (cl_event))                                                      \
  X(45, cl_int, clGetEventProfilingInfo, (cl_event, cl_uint, size_t, void*, size_t*))            \
  X(46, cl_int, clFlush, (cl_command_queue))                                                     \
  X(48, cl_int, clEnqueueReadBuffer,                                                             \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*,         \
     cl_event*))                                                                                 \
  X(49, cl_int, clEnqueueWriteBuffer,                                                            \
    (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*,         \
     cl_event*))                                                                                 \
  X(50, cl_int, clEnqueueCopyBuffer,                                                             \
    (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*,         \
     cl_event*))                                                                                 \
  X(56, void*, clEnqueueMapBuffer,                                                               \
    (cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, cl_uint, const cl_event*,   \
     cl_event*, cl_int*))                                                                        \
  X(58, cl_int, clEnqueueUnmapMemObject,                                                         \
    (cl_command_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event*))                      \
  X(59, cl_int, clEnqueueNDRangeKernel,                                                          \
    (cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, cl_uint, \
     const cl_event*, cl_event*))                                                                \
  X(81, cl_int, clSetEventCallback, (cl_event, cl_int, cl_event_callback, void*))                \
  X(84, cl_event, clCreateUserEvent, (cl_context, cl_int*))                                      \
  X(85, cl_int, clSetUserEventStatus, (cl_event, cl_int))                                        \
  X(86, cl_int, clEnqueueReadBufferRect,                                                         \
    (cl_command_queue, cl_mem, cl_bool, const size_t*, const size_t*, const size_t*, size_t,     \
     size_t, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))                        \
  X(87, cl_int, clEnqueueWriteBufferRect,                                                        \
    (cl_command_queue, cl_mem, cl_bool, const size_t*, const size_t*, const size_t*, size_t,     \
     size_t, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*))                        \
  X(88, cl_int, clEnqueueCopyBufferRect,                                                         \
    (cl_command_queue, cl_mem, cl_mem, const size_t*, const size_t*, const size_t*, size_t,      \
     size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*))                               \
  X(102, cl_int, clEnqueueFillBuffer,                                                            \
    (cl_command_queue, cl_mem, const void*, size_t, size_t, size_t, cl_uint, const cl_event*,    \
     cl_event*))                                                                                 \
  X(105, cl_int, clEnqueueMarkerWithWaitList,                                                    \
    (cl_command_queue, cl_uint, const cl_event*, cl_event*))                                     \
  X(106, cl_int, clEnqueueBarrierWithWaitList,                                                   \
    (cl_command_queue, cl_uint, const cl_event*, cl_event*))

#define OUTBOARD_OPENCL_2_0(X)                                                                    \
  X(123, cl_command_queue, clCreateCommandQueueWithProperties,                                    \
    (cl_context, cl_device_id, const cl_properties*, cl_int*))                                    \
  X(126, void*, clSVMAlloc, (cl_context, cl_bitfield, size_t, cl_uint))                           \
  X(127, void, clSVMFree, (cl_context, void*))                                                    \
  X(129, cl_int, clEnqueueSVMMemcpy,                                                              \
    (cl_command_queue, cl_bool, void*, const void*, size_t, cl_uint, const cl_event*, cl_event*)) \
  X(130, cl_int, clEnqueueSVMMemFill,                                                             \
    (cl_command_queue, void*, const void*, size_t, size_t, cl_uint, const cl_event*, cl_event*))  \
  X(134, cl_int, clSetKernelArgSVMPointer, (cl_kernel, cl_uint, const void*))

/* The functions of one platform. Those of OpenCL 2.0 are NULL where there is only 1.2. */
struct OpenCL {
#define OUTBOARD_DECLARE(index, result, name, arguments) result(*name) arguments = nullptr;
  OUTBOARD_OPENCL_1_2(OUTBOARD_DECLARE)
  OUTBOARD_OPENCL_2_0(OUTBOARD_DECLARE)
#undef OUTBOARD_DECLARE
};

#endif  // OUTBOARD_DRIVERS_OCL_OPENCL_H
