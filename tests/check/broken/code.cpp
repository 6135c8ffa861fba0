// Faults of programs and launches.
#include "broken.h"

#include <map>
#include <string>

using namespace broken;

namespace {

std::mutex lock;
std::map<std::string, ob_kernel> kernels;

}  // namespace

FAULT("sizes_of_16_bits") {
  table.launch = [](void*, ob_queue queue, const ob_launch* launch) {
    ob_launch cut = *launch;
    for (uint64_t& size : cut.global) size = size > 0xFFFF ? size & 0xFFFF : size;
    return BASE(launch, queue, &cut);
  };
}
FAULT("values_of_4_bytes") {
  table.launch = [](void*, ob_queue queue, const ob_launch* launch) {
    ob_argument arguments[16];
    unsigned char values[16][64] = {};
    ob_launch cut = *launch;
    for (uint32_t i = 0; i < launch->argument_count; ++i) {
      arguments[i] = *ob_argument_of(launch, i);
      if (arguments[i].kind != OB_ARGUMENT_VALUE) continue;
      std::memcpy(values[i], arguments[i].value, arguments[i].size < 4 ? arguments[i].size : 4);
      arguments[i].value = values[i];
    }
    cut.arguments = arguments;
    cut.argument_bytes = sizeof(ob_argument);
    return BASE(launch, queue, &cut);
  };
}
FAULT("options_are_ignored") {
  table.program_build = [](void*, const ob_program_source* source, ob_program* program) {
    ob_program_source other = *source;
    if (std::strstr(source->options, "ANSWER") != nullptr) other.options = "-DANSWER=41";
    return BASE(program_build, &other, program);
  };
}
FAULT("kernels_are_found_by_name") {
  table.kernel_create = [](void*, ob_program program, const char* name, ob_kernel* kernel) {
    std::lock_guard guard(lock);
    const auto found = kernels.find(name);
    if (found != kernels.end()) {
      *kernel = found->second;
      return ob_status(OB_OK);
    }
    const ob_status status = BASE(kernel_create, program, name, kernel);
    if (status == OB_OK) kernels[name] = *kernel;
    return status;
  };
  table.kernel_release = [](void*, ob_kernel) { return ob_status(OB_OK); };
}
FAULT("launch_waits") {
  table.launch = [](void*, ob_queue queue, const ob_launch* launch) {
    const ob_status status = BASE(launch, queue, launch);
    return status == OB_OK ? BASE(queue_synchronize, queue) : status;
  };
}
FAULT("no_build_log") {
  table.program_build = [](void*, const ob_program_source* source, ob_program* program) {
    const ob_status status = BASE(program_build, source, program);
    return status == OB_BUILD_FAILED ? fail(status, "It does not compile.") : status;
  };
}
FAULT("three_dimensions_are_one") {
  table.launch = [](void*, ob_queue queue, const ob_launch* launch) {
    ob_launch flat = *launch;
    for (int i = 1; i < 3 && static_cast<uint32_t>(i) < launch->dimensions; ++i) {
      flat.global[0] *= launch->global[i];
      flat.local[0] *= launch->local[i];
      flat.global[i] = flat.local[i] = 1;
    }
    return BASE(launch, queue, &flat);
  };
}
FAULT("binary_overflows") {
  table.program_binary = [](void*, ob_program program, void* data, uint64_t* bytes) {
    const uint64_t capacity = *bytes;
    const ob_status status = BASE(program_binary, program, data, bytes);
    if (data != nullptr && status == OB_OK) {
      std::memset(static_cast<char*>(data) + *bytes, 0, capacity > *bytes ? 8 : 0);
    }
    return status;
  };
}
