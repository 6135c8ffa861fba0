// Programs, kernels and launches.
#include <compiler/compiler.h>

#include "riscv.h"

struct ob_program_t {
  riscv::Device& device;
  std::shared_ptr<const riscv::Image> image;
};

struct ob_kernel_t {
  riscv::Device& device;
  std::shared_ptr<const riscv::Image> image;
  std::string name;
  uint64_t entry;
  std::vector<uint32_t> parameters;  // their number, then kind and bytes of each
};

namespace riscv {
namespace {

ob_program new_program(Device& device, std::string file) {
  const auto place = [&](uint64_t bytes) {
    // A page between programs belongs to none.
    const uint64_t address = device.next_program.fetch_add(bytes + kPage);
    if (address + bytes <= device.space.end) return address;
    fail(OB_OUT_OF_MEMORY, "Device %d has no addresses left for programs.", device.index);
  };
  return new ob_program_t{device, std::make_shared<const Image>(std::move(file), place)};
}

// Appends room to the block of arguments; returns its offset.
uint64_t add(std::string& block, const ob_kernel kernel, uint64_t bytes, uint64_t alignment) {
  const uint64_t offset = (block.size() + alignment - 1) / alignment * alignment;
  const uint64_t limit = kernel->device.space.argument_bytes;
  if (bytes > limit || offset > limit - bytes) {
    fail(OB_INVALID_ARGUMENT, "The arguments of kernel %s take more than %" PRIu64 " bytes.",
         kernel->name.c_str(), limit);
  }
  block.resize(offset + bytes);
  return offset;
}

void check_argument(const ob_kernel kernel, uint32_t i, const ob_argument& argument) {
  const auto kind = static_cast<ob_argument_kind>(kernel->parameters[1 + 2 * i]);
  const bool is_value = argument.kind == OB_ARGUMENT_VALUE;
  if (is_value != (kind == OB_ARGUMENT_VALUE) ||
      (is_value && argument.size != kernel->parameters[2 + 2 * i]) ||
      (argument.kind == OB_ARGUMENT_ADDRESS &&
       argument.address - kernel->device.space.memory > kernel->device.space.memory_bytes)) {
    fail(OB_INVALID_ARGUMENT,
         "Argument %u of kernel %s is not what its parameter wants: a value of %u bytes, or an "
         "address of device %d.",
         i, kernel->name.c_str(), kernel->parameters[2 + 2 * i], kernel->device.index);
  }
}

// The range, the pointers to the arguments, and the arguments.
void add_arguments(Call& call, const ob_launch* launch, const AddressSpace& space) {
  const ob_kernel kernel = launch->kernel;
  std::string& block = call.arguments;
  if (launch->argument_count != kernel->parameters[0]) {
    fail(OB_INVALID_ARGUMENT, "Kernel %s takes %u arguments, not %u.", kernel->name.c_str(),
         kernel->parameters[0], launch->argument_count);
  }
  call.pointers = add(block, kernel, uint64_t{8} * (launch->argument_count + 1), 16);
  for (uint32_t i = 0; i < launch->argument_count; ++i) {
    const ob_argument& argument = *ob_argument_of(launch, i);
    check_argument(kernel, i, argument);
    uint64_t pointed = argument.address;
    const void* value = argument.kind == OB_ARGUMENT_VALUE ? argument.value : &pointed;
    const uint64_t bytes = argument.kind == OB_ARGUMENT_VALUE ? argument.size : sizeof pointed;
    if (argument.kind == OB_ARGUMENT_LOCAL) {
      pointed = space.arguments + add(block, kernel, argument.size, 128);
    }
    const uint64_t at = add(block, kernel, bytes, 16), pointer = space.arguments + at;
    std::memcpy(block.data() + at, value, bytes);
    std::memcpy(block.data() + call.pointers + 8 * i, &pointer, sizeof pointer);
  }
}

item_range range_of(const ob_launch* launch) {
  item_range range = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, launch->dimensions};
  bool makes_sense = launch->dimensions >= 1 && launch->dimensions <= 3;
  for (uint32_t i = 0; i < launch->dimensions && makes_sense; ++i) {
    makes_sense = launch->global[i] != 0 && launch->local[i] == 1;
    range.last[i] = range.global_size[i] = launch->global[i];
  }
  if (makes_sense) return range;
  fail(OB_INVALID_ARGUMENT, "Kernel %s has 1 to 3 dimensions, and work items in groups of 1.",
       launch->kernel->name.c_str());
}

ob_status program_build(const ob_program_source* described, ob_program* program) {
  Device& device = device_at(described->device);
  if (described->source == nullptr) fail(OB_INVALID_ARGUMENT, "The source of a program is NULL.");
  const char* options = described->options == nullptr ? "" : described->options;
  *program = new_program(device, compile(described->source, options));
  return OB_OK;
}

ob_status program_binary(ob_program program, void* data, uint64_t* bytes) {
  const std::string& file = program->image->file;
  if (data != nullptr && *bytes < file.size()) {
    fail(OB_INVALID_ARGUMENT, "The binary has %zu bytes, not %" PRIu64 "; ask for its size first.",
         file.size(), *bytes);
  }
  if (data != nullptr) std::memcpy(data, file.data(), file.size());
  *bytes = file.size();
  return OB_OK;
}

ob_status program_load(const ob_program_image* image, ob_program* program) {
  Device& device = device_at(image->device);
  if (image->data == nullptr) fail(OB_INVALID_ARGUMENT, "The binary of a program is NULL.");
  *program = new_program(device, std::string(static_cast<const char*>(image->data), image->bytes));
  return OB_OK;
}

ob_status program_release(ob_program program) {
  delete program;
  return OB_OK;
}

ob_status kernel_create(ob_program program, const char* name, ob_kernel* kernel) {
  const uint64_t entry = program->image->symbol(std::string("ob_entry_") + name);
  if (entry == 0) fail(OB_INVALID_ARGUMENT, "The program has no kernel named %s.", name);
  const uint64_t at = program->image->symbol(std::string("ob_parameters_") + name);
  std::vector<uint32_t> parameters = program->image->words(at, 1);
  parameters = program->image->words(at, 1 + uint64_t{2} * parameters[0]);
  *kernel = new ob_kernel_t{program->device, program->image, name, entry, std::move(parameters)};
  return OB_OK;
}

ob_status kernel_release(ob_kernel kernel) {
  delete kernel;
  return OB_OK;
}

struct Launch : task {
  Device& device;
  Call call;
};

ob_status run_launch(task* work) {
  try {
    const Launch& launch = *static_cast<Launch*>(work);
    run(launch.device, launch.call);
    return OB_OK;
  } catch (...) {
    return drivers::keep_exception();
  }
}

void destroy_launch(task* work) { delete static_cast<Launch*>(work); }

ob_status launch(ob_queue queue, const ob_launch* launch) {
  const ob_kernel kernel = launch->kernel;
  Device& device = device_at(device_of(queue));
  if (&kernel->device != &device) {
    fail(OB_INVALID_ARGUMENT, "Kernel %s of device %d cannot run on a queue of device %d.",
         kernel->name.c_str(), kernel->device.index, device.index);
  }
  Call call = {kernel->image, kernel->name, kernel->entry, {}, 0};
  const item_range range = range_of(launch);
  call.arguments.assign(reinterpret_cast<const char*>(&range), sizeof range);
  add_arguments(call, launch, device.space);
  return enqueue_task(
      queue, new Launch{{1, run_launch, nullptr, destroy_launch}, device, std::move(call)});
}

}  // namespace

void set_program_functions(ob_driver& table) {
  OB_SET(table, program_build);
  OB_SET(table, program_binary);
  OB_SET(table, program_load);
  OB_SET(table, program_release);
  OB_SET(table, kernel_create);
  OB_SET(table, kernel_release);
  OB_SET(table, launch);
}

}  // namespace riscv
