// Programs, kernels and launches.
#include <common/sealed_binary.h>
#include <common/system.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "ocl.h"

struct ob_program_t {
  ocl::Device& device;
  cl_program program = nullptr;
  std::mutex mutex;
  std::string binary;  // since program_binary was asked for the size
  // NULL if pocl_compiler did not build it.
  std::shared_ptr<const ocl::CompilerSource> source;
};

struct ob_kernel_t {
  ob_kernel_t(ocl::Device& device, cl_program program, std::string name,
              std::shared_ptr<const ocl::CompilerSource> source = nullptr);
  ob_kernel_t(const ob_kernel_t&) = delete;
  ob_kernel_t& operator=(const ob_kernel_t&) = delete;
  ~ob_kernel_t() { device.api->clReleaseKernel(kernel); }

  // The current value of an OpenCL argument. It stays set from launch to launch, and most launches
  // of a kernel differ in few arguments.
  struct Argument {
    size_t bytes = SIZE_MAX;  // SIZE_MAX: unknown
    std::string value;        // empty for local memory
    // If the value is a buffer: the range of its allocation.
    ob_address start = 0;
    uint64_t length = 0;
  };
  Argument& argument(cl_uint index) {
    if (index >= arguments.size()) arguments.resize(index + 1);
    return arguments[index];
  }

  ocl::Device& device;
  cl_program program;  // which the kernel keeps alive
  cl_kernel kernel = nullptr;
  std::string name;
  std::vector<Argument> arguments;  // for one thread at a time, as the kernel
  uint64_t releases = 0;            // of the device's memory, when they were set
  const std::shared_ptr<const ocl::CompilerSource> source;  // of the program
  std::vector<std::array<size_t, 3>> local_sizes;  // of launches so far, if there is a source
};

ob_kernel_t::ob_kernel_t(ocl::Device& device, cl_program program, std::string name,
                         std::shared_ptr<const ocl::CompilerSource> source)
    : device(device), program(program), name(std::move(name)), source(std::move(source)) {
  cl_int code = CL_SUCCESS;
  kernel = device.api->clCreateKernel(program, this->name.c_str(), &code);
  if (code == CL_INVALID_KERNEL_NAME) {
    ocl::fail(OB_INVALID_ARGUMENT, "The program has no kernel named %s.", this->name.c_str());
  }
  ocl::check(code, "clCreateKernel");
}

namespace ocl {
namespace {

// Before instructions of PTX that sm_90a alone has; see matrix_units.cl.
constexpr const char* kOnlySm90a = "//sm_90a ";

// Upper bound for a build whose source is in PoCL's cache, which takes 8 to 18 ms.
constexpr auto kBuildFromCache = std::chrono::milliseconds(30);

void check_code_runs(const Device& device) {
  if (!device.no_code_reason.empty()) fail(OB_UNSUPPORTED, "%s", device.no_code_reason.c_str());
  check_room_for_kernels(device);
}

std::string build_info(const Device& device, cl_program program, cl_uint what) {
  size_t bytes = 0;
  const OpenCL& api = *device.api;
  check(api.clGetProgramBuildInfo(program, device.id, what, 0, nullptr, &bytes),
        "clGetProgramBuildInfo");
  std::string text(bytes, '\0');
  check(api.clGetProgramBuildInfo(program, device.id, what, bytes, text.data(), nullptr),
        "clGetProgramBuildInfo");
  return text.c_str();
}

// The device's binary of a program; "" if it gives none.
std::string binary_of(const Device& device, cl_program program) {
  const auto info = [&](cl_uint what, auto& value) {
    check(device.api->clGetProgramInfo(program, what, sizeof value, &value, nullptr),
          "clGetProgramInfo");
  };
  size_t size = 0;
  info(CL_PROGRAM_BINARY_SIZES, size);
  std::string binary(size, '\0');
  auto* content = reinterpret_cast<unsigned char*>(binary.data());
  if (size != 0) info(CL_PROGRAM_BINARIES, content);
  return binary;
}

// The caller builds the program. Throws OB_INVALID_ARGUMENT if it is no binary for the device.
cl_program create_from_binary(const Device& device, std::string_view binary) {
  const auto* content = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t size = binary.size();
  cl_int code = CL_SUCCESS, status = CL_SUCCESS;
  cl_program created = device.api->clCreateProgramWithBinary(device.context, 1, &device.id, &size,
                                                             &content, &status, &code);
  check(code, "clCreateProgramWithBinary");
  return created;
}

// Takes ownership of `program`, also on failure.
ob_program build(Device& device, cl_program program, const char* options, const char* what) {
  const OpenCL& api = *device.api;
  auto built = std::make_unique<ob_program_t>(device, program);
  const cl_int code = api.clBuildProgram(program, 1, &device.id, options, nullptr, nullptr);
  if (code == CL_SUCCESS) return built.release();
  try {
    const std::string log = build_info(device, program, CL_PROGRAM_BUILD_LOG);
    fail(OB_BUILD_FAILED, "%s does not build for device %d (%s).%s%s", what, device.index,
         code_name(code).c_str(), log.empty() ? "" : "\n", log.c_str());
  } catch (...) {
    api.clReleaseProgram(program);
    throw;
  }
}

// Turns the PTX of NVIDIA's compiler for sm_90 into a program for sm_90a, the target with wgmma.
// The source has these instructions in comments, because the compiler's target lacks them.
void compile_for_sm_90a(Device& device, ob_program_t& built, const std::string& options) {
  std::string ptx = binary_of(device, built.program);
  if (ptx.find(kOnlySm90a) == std::string::npos) return;
  const auto replace = [&](const std::string& before, const std::string& after) {
    for (size_t at = ptx.find(before); at != std::string::npos;
         at = ptx.find(before, at + after.size())) {
      ptx.replace(at, before.size(), after);
    }
  };
  replace(kOnlySm90a, "");
  replace(".target sm_90,", ".target sm_90a,");
  const std::unique_ptr<ob_program_t> rebuilt(
      build(device, create_from_binary(device, ptx), options.c_str(), "The source, for sm_90a,"));
  std::swap(built.program, rebuilt->program);
  check(device.api->clReleaseProgram(rebuilt->program), "clReleaseProgram");
}

ob_program build_source(Device& device, const std::string& text, const std::string& options) {
  auto source = build_in_compiler(device, text, options);
  const auto begin = std::chrono::steady_clock::now();
  const char* texts[] = {text.c_str()};
  cl_int code = CL_SUCCESS;
  cl_program created =
      device.api->clCreateProgramWithSource(device.context, 1, texts, nullptr, &code);
  check(code, "clCreateProgramWithSource");
  std::unique_ptr<ob_program_t> built(build(device, created, options.c_str(), "The source"));
  if (source == nullptr && std::chrono::steady_clock::now() - begin > kBuildFromCache) {
    start_compilers(device);
  }
  built->source = std::move(source);
  if ((device.properties.features & OB_FEATURE_WARPGROUPS) != 0 &&
      text.find(kOnlySm90a) != std::string::npos) {
    try {
      compile_for_sm_90a(device, *built, options);
    } catch (...) {
      device.api->clReleaseProgram(built->program);
      throw;
    }
  }
  return built.release();
}

// Registers per work-item: NVIDIA's compiler uses as many as it can, which limits resident
// work-groups. The option OB_REGISTERS sets a limit.
std::string register_limit(const Device& device, const std::string& options) {
  constexpr const char* kWish = "-DOB_REGISTERS=";
  const size_t found = device.nvidia_version != 0 ? options.find(kWish) : std::string::npos;
  if (found == std::string::npos) return "";
  const size_t begin = found + std::strlen(kWish);
  return " -cl-nv-maxrregcount=" + options.substr(begin, options.find(' ', begin) - begin);
}

// Sets an argument unless it has the value.
void set_argument(ob_kernel kernel, cl_uint index, size_t bytes, const void* value) {
  ob_kernel_t::Argument& set = kernel->argument(index);
  const std::string_view wanted(static_cast<const char*>(value), value == nullptr ? 0 : bytes);
  if (set.bytes == bytes && set.value == wanted) return;
  set.bytes = SIZE_MAX;
  set.length = 0;
  const cl_int code = kernel->device.api->clSetKernelArg(kernel->kernel, index, bytes, value);
  if (code != CL_SUCCESS) {
    fail(OB_INVALID_ARGUMENT, "Argument %u of kernel %s: clSetKernelArg of %zu bytes returned %s.",
         index, kernel->name.c_str(), bytes, code_name(code).c_str());
  }
  set.value = wanted;
  set.bytes = bytes;
}

// Sets an address and returns how many arguments of the kernel it took.
cl_uint set_address(ob_kernel kernel, cl_uint index, ob_address address) {
  Device& device = kernel->device;
  if (address == 0) {
    fail(OB_INVALID_ARGUMENT, "Argument %u of kernel %s is the address 0, which is not memory.",
         index, kernel->name.c_str());
  }
  if (device.memory == MemoryKind::kHandles) {
    cl_ulong offset = address - kernel->argument(index).start;
    if (offset >= kernel->argument(index).length) {
      const Location memory = locate(device, address, 1);
      offset = memory.offset;
      set_argument(kernel, index, sizeof memory.buffer, &memory.buffer);
      kernel->argument(index).start = address - offset;
      kernel->argument(index).length = memory.length;
    }
    set_argument(kernel, index + 1, sizeof offset, &offset);
    return 2;
  }
  // Kernels get each of their pointers as an argument, so nothing has to be said to
  // clSetKernelExecInfo about pointers inside of memory.
  const cl_int code = device.api->clSetKernelArgSVMPointer(kernel->kernel, index,
                                                           reinterpret_cast<const void*>(address));
  if (code != CL_SUCCESS) {
    fail(OB_INVALID_ARGUMENT, "Argument %u of kernel %s: clSetKernelArgSVMPointer returned %s.",
         index, kernel->name.c_str(), code_name(code).c_str());
  }
  return 1;
}

void set_arguments(ob_kernel kernel, const ob_launch* launch) {
  // A new buffer may have the handle of a freed one, and must be set all the same.
  const uint64_t releases = kernel->device.releases.load(std::memory_order_relaxed);
  if (kernel->releases != releases) kernel->arguments.clear();
  kernel->releases = releases;
  cl_uint index = 0;
  for (uint32_t i = 0; i < launch->argument_count; ++i) {
    const ob_argument& argument = *ob_argument_of(launch, i);
    switch (argument.kind) {
      case OB_ARGUMENT_ADDRESS:
        index += set_address(kernel, index, argument.address);
        break;
      case OB_ARGUMENT_VALUE:
        set_argument(kernel, index++, argument.size, argument.value);
        break;
      case OB_ARGUMENT_LOCAL:
        set_argument(kernel, index++, argument.size, nullptr);
        break;
      default:
        fail(OB_INVALID_ARGUMENT, "Argument %u of kernel %s is of the unknown kind %d.", i,
             kernel->name.c_str(), argument.kind);
    }
  }
}

CompiledLaunch describe(const ob_kernel_t& kernel, const ob_launch& launch) {
  CompiledLaunch described;
  described.kernel = kernel.name;
  described.dimensions = launch.dimensions;
  std::copy_n(launch.global, launch.dimensions, described.global.begin());
  std::copy_n(launch.local, launch.dimensions, described.local.begin());
  for (uint32_t i = 0; i < launch.argument_count; ++i) {
    const ob_argument& argument = *ob_argument_of(&launch, i);
    if (argument.kind == OB_ARGUMENT_ADDRESS) {
      described.arguments.push_back(-static_cast<int32_t>(sizeof(cl_mem)));
      if (kernel.device.memory == MemoryKind::kHandles) {
        described.arguments.push_back(sizeof(cl_ulong));
      }
    } else {
      const auto bytes = static_cast<int32_t>(argument.size);
      described.arguments.push_back(argument.kind == OB_ARGUMENT_LOCAL ? -bytes : bytes);
    }
  }
  return described;
}

// Before the first launch of a kernel with a local size: the event that it has to wait for, if any.
EventReference compiled_elsewhere(ob_kernel_t& kernel, const ob_launch& launch) {
  if (kernel.source == nullptr) return {};
  std::array<size_t, 3> local = {};
  std::copy_n(launch.local, launch.dimensions, local.begin());
  if (std::find(kernel.local_sizes.begin(), kernel.local_sizes.end(), local) !=
      kernel.local_sizes.end()) {
    return {};
  }
  kernel.local_sizes.push_back(local);
  return compile_for_launch(kernel.device, kernel.source, describe(kernel, launch));
}

}  // namespace

ob_status program_build(const ob_program_source* described, ob_program* program) {
  Device& device = device_at(described->device);
  const char* source = described->source;
  const char* options = described->options;
  check_code_runs(device);
  if (source == nullptr) fail(OB_INVALID_ARGUMENT, "The source of a program is NULL.");
  // Without warnings, whose number compilers print to the user's terminal.
  std::string all = std::string(options == nullptr ? "" : options) + " -w";
  const std::string text = surrounded(device, source, all);
  // The key of PoCL's cache has source, options and PoCL's name of the processor. The option adds
  // the name that replaced it.
  if (!device.processor.name.empty()) all += " -DOB_PROCESSOR=" + device.processor.name;
  all += register_limit(device, all);
  // For sources with NVIDIA's instructions, which not all of its devices have.
  if (device.nvidia_version != 0) all += " -DOB_NVIDIA=" + std::to_string(device.nvidia_version);
  if (const std::string declared = declarations_for(device, text + all); !declared.empty()) {
    try {
      *program = build_source(device, declared + text, all + kWithoutHeader);
      return OB_OK;
    } catch (const Failure& failure) {
      // The source is wrong, or names a function in a way that was not seen.
      if (failure.status != OB_BUILD_FAILED) throw;
    }
  }
  *program = build_source(device, text, all);
  return OB_OK;
}

ob_status program_binary(ob_program program, void* data, uint64_t* bytes) {
  std::lock_guard lock(program->mutex);
  if (data != nullptr) {
    if (*bytes < program->binary.size()) {
      fail(OB_INVALID_ARGUMENT,
           "The binary has %zu bytes, not %" PRIu64 "; ask for its size first.",
           program->binary.size(), *bytes);
    }
    std::memcpy(data, program->binary.data(), program->binary.size());
    *bytes = program->binary.size();
    return OB_OK;
  }
  // Read together with its size: a later launch would change it.
  const std::string binary = binary_of(program->device, program->program);
  if (binary.empty()) fail(OB_UNSUPPORTED, "The device gives no binary of this program.");
  program->binary = drivers::sealed(binary);
  *bytes = program->binary.size();
  return OB_OK;
}

ob_status program_load(const ob_program_image* image, ob_program* program) {
  Device& device = device_at(image->device);
  check_code_runs(device);
  const std::string_view binary = drivers::unsealed(image->data, image->bytes);
  *program = build(device, create_from_binary(device, binary), "", "The binary");
  return OB_OK;
}

ob_status program_release(ob_program program) {
  const std::unique_ptr<ob_program_t> released(program);
  check(program->device.api->clReleaseProgram(program->program), "clReleaseProgram");
  return OB_OK;
}

ob_status kernel_create(ob_program program, const char* name, ob_kernel* kernel) {
  *kernel = new ob_kernel_t(program->device, program->program, name, program->source);
  return OB_OK;
}

ob_status kernel_release(ob_kernel kernel) {
  delete kernel;
  return OB_OK;
}

ob_status kernel_attributes(ob_kernel kernel, ob_kernel_attributes* attributes) {
  const OpenCL& api = *kernel->device.api;
  const auto info = [&](cl_uint what, auto& value) {
    check(api.clGetKernelWorkGroupInfo(kernel->kernel, kernel->device.id, what, sizeof value,
                                       &value, nullptr),
          "clGetKernelWorkGroupInfo");
  };
  size_t largest = 0;
  cl_ulong local_memory = 0;
  info(CL_KERNEL_WORK_GROUP_SIZE, largest);
  info(CL_KERNEL_LOCAL_MEM_SIZE, local_memory);
  // NVIDIA's OpenCL answers 256 for kernels that it runs in larger groups, and refuses a launch
  // that it can't run.
  if (kernel->device.nvidia_version != 0) {
    largest = std::max<size_t>(largest, kernel->device.properties.max_work_group_size);
  }
  attributes->max_work_group_size = static_cast<uint32_t>(largest);
  attributes->local_memory = static_cast<uint32_t>(local_memory);
  return OB_OK;
}

ob_status launch(ob_queue queue, const ob_launch* launch) {
  ob_kernel kernel = launch->kernel;
  if (&kernel->device != &queue->device) {
    fail(OB_INVALID_ARGUMENT, "Kernel %s of device %d cannot run on a queue of device %d.",
         kernel->name.c_str(), kernel->device.index, queue->device.index);
  }
  if (launch->dimensions < 1 || launch->dimensions > 3) {
    fail(OB_INVALID_ARGUMENT, "Kernel %s was launched in %u dimensions; there are 1 to 3.",
         kernel->name.c_str(), launch->dimensions);
  }
  std::lock_guard lock(queue->mutex);
  std::shared_ptr<ob_kernel_t> captured;  // with arguments that no other launch sets
  if (queue->graph != nullptr) {
    captured = std::make_shared<ob_kernel_t>(kernel->device, kernel->program, kernel->name);
    kernel = captured.get();
  }
  set_arguments(kernel, launch);
  std::array<size_t, 3> global = {};
  std::array<size_t, 3> local = {};
  for (uint32_t i = 0; i < launch->dimensions; ++i) {
    global[i] = launch->global[i];
    local[i] = launch->local[i];
    if (local[i] == 0 || global[i] == 0 || global[i] % local[i] != 0) {
      fail(OB_INVALID_ARGUMENT, "Kernel %s: %zu work-items are not a multiple of groups of %zu.",
           kernel->name.c_str(), global[i], local[i]);
    }
  }
  ob_event const start = OB_COVERS(launch, start) ? launch->start : nullptr;
  ob_event const end = OB_COVERS(launch, end) ? launch->end : nullptr;
  check_launch_event(start, queue->device);
  check_launch_event(end, queue->device);
  const bool timed = start != nullptr || end != nullptr;
  if (timed) {
    check_not_recording(queue, "events of launches");
    be_timed(queue);
  }
  const OpenCL* api = queue->device.api;
  const cl_uint dimensions = launch->dimensions;
  const EventReference compiled = compiled_elsewhere(*kernel, *launch);
  try {
    enqueue(
        queue, "clEnqueueNDRangeKernel",
        [=, own = std::move(captured)](cl_command_queue commands, cl_event* event) {
          const cl_event before = compiled.get();
          return api->clEnqueueNDRangeKernel(commands, kernel->kernel, dimensions, nullptr,
                                             global.data(), local.data(), before != nullptr,
                                             before != nullptr ? &before : nullptr, event);
        },
        timed);
  } catch (Failure& failure) {
    failure.message = "Kernel " + launch->kernel->name + ": " + failure.message;
    throw;
  }
  if (timed) {
    record_launch(start, queue->last, true);
    record_launch(end, queue->last, false);
    // Else a wait for an event might last forever, for unsent work.
    check(api->clFlush(queue->commands), "clFlush");
  }
  return OB_OK;
}

void set_program_functions(ob_driver& table) {
  OB_SET(table, program_build);
  OB_SET(table, program_binary);
  OB_SET(table, program_load);
  OB_SET(table, program_release);
  OB_SET(table, kernel_create);
  OB_SET(table, kernel_release);
  OB_SET(table, kernel_attributes);
  OB_SET(table, launch);
}

}  // namespace ocl
