// The RISC-V driver: kernels for another instruction set than the host's, in separate memory,
// executed by an emulator. It behaves like a card with its own processor, and is the example for
// hardware with a C compiler and no OpenCL. Each device is one processor of the kind rv64gc.
// riscv.h lists the parts; this file holds devices, the table, and the settings, which
// torch_outboard/setting_table.py describes.
#include <common/settings.h>
#include <memory/memory.h>
#include <sys/mman.h>
#include <unistd.h>

#include "riscv.h"

namespace riscv {
namespace {

constexpr uint64_t kGuard = 1 << 20;  // bytes between parts of a device's addresses
constexpr uint64_t kProgramBytes = uint64_t{1} << 36;  // addresses, not memory

// The device's memory, and further addresses for its kernels.
void create_addresses(Device& device, uint64_t bytes) {
  AddressSpace& space = device.space;
  space.memory_bytes = whole_pages(bytes);
  space.stack_bytes = 8 << 20;
  space.argument_bytes = 1 << 20;
  const memory_settings settings = {space.memory_bytes, false, "OUTBOARD_RISCV_MEMORY"};
  device_memory created = {};
  drivers::check(create_memory(&settings, &created));
  space.memory = created.base;
  device.contents = created.contents;
  const uint64_t own = space.stack_bytes + space.argument_bytes + 3 * kGuard + kProgramBytes;
  // No memory of the host gets these addresses.
  void* reserved =
      mmap(nullptr, own, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) {
    fail(OB_OUT_OF_MEMORY, "The host cannot reserve %" PRIu64 " bytes of addresses.", own);
  }
  space.stack = reinterpret_cast<uintptr_t>(reserved) + kGuard;
  space.arguments = space.stack + space.stack_bytes + kGuard;
  device.next_program = space.arguments + space.argument_bytes + kGuard;
  space.end = reinterpret_cast<uintptr_t>(reserved) + own;
}

// ---- Devices

std::string& g_no_device_reason = *new std::string;

ob_status initialize() {
  const auto devices =
      static_cast<int32_t>(drivers::number_setting("OUTBOARD_RISCV_DEVICES", 1, 16, 1));
  const auto physical = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
  const uint64_t memory = drivers::number_setting("OUTBOARD_RISCV_MEMORY", 1, uint64_t{1} << 37,
                                                  physical / 4 / static_cast<uint64_t>(devices));
  const uint64_t time_limit = drivers::number_setting("OUTBOARD_RISCV_TIME_LIMIT", 1, 86400, 600);
  try {
    load_unicorn(time_limit);
    load_compiler();
  } catch (const drivers::Failure& failure) {
    if (failure.status != OB_UNSUPPORTED) throw;
    g_no_device_reason = failure.message;
    return OB_OK;
  }
  for (int32_t i = 0; i < devices; ++i) {
    g_devices.push_back(std::unique_ptr<Device>(new Device{i}));
    create_addresses(*g_devices.back(), memory);
  }
  start_queues("riscv", devices);
  return OB_OK;
}

ob_status finalize() {
  stop_queues();
  return OB_OK;
}

ob_status device_count(int32_t* count) {
  *count = static_cast<int32_t>(g_devices.size());
  return *count == 0 ? drivers::keep_message(OB_OK, g_no_device_reason) : OB_OK;
}

ob_status device_properties(int32_t index, ob_device_properties* properties) {
  const Device& device = device_at(index);
  ob_device_properties ours = {};
  ours.struct_size = properties->struct_size;
  std::snprintf(ours.name, sizeof ours.name, "RISC-V processor %d (rv64gc, emulated)", index);
  std::strcpy(ours.vendor, "torch_outboard");
  std::snprintf(ours.driver_version, sizeof ours.driver_version, "%s", compiler_key().c_str());
  ours.kind = OB_DEVICE_ACCELERATOR;
  ours.addressing = OB_ADDRESSING_POINTER;
  ours.host_access = OB_HOST_ACCESS_NONE;
  ours.dtypes = 2 * OB_DTYPE_UINT64 - 1;  // all
  ours.total_memory = ours.max_allocation = device.space.memory_bytes;
  ours.alignment = kPage;
  ours.compute_units = 1;
  ours.preferred_vector_width = 8;  // no vectors: loops that are unrolled, sums in as many parts
  ours.max_work_group_size = 1;
  ours.greatest_priority = GREATEST_PRIORITY;
  ours.local_memory = 64 << 10;
  // The caller may have been compiled with an older, shorter struct.
  std::memcpy(properties, &ours, std::min(properties->struct_size, sizeof ours));
  return OB_OK;
}

}  // namespace

std::vector<std::unique_ptr<Device>>& g_devices = *new std::vector<std::unique_ptr<Device>>;

Device& device_at(int32_t index) {
  drivers::check(check_device(index));
  return *g_devices[static_cast<size_t>(index)];
}

}  // namespace riscv

extern "C" __attribute__((visibility("default"))) const ob_driver* ob_driver_table() {
  using namespace riscv;
  static const ob_driver table = [] {
    ob_driver made = {};
    made.major = OB_VERSION_MAJOR;
    made.minor = OB_VERSION_MINOR;
    made.struct_size = sizeof made;
    made.name = "riscv";
    made.last_error = drivers::last_error;
    OB_SET(made, initialize);
    OB_SET(made, finalize);
    OB_SET(made, device_count);
    OB_SET(made, device_properties);
    set_program_functions(made);
    set_memory_functions(&made);
    set_queue_functions(&made);
    return made;
  }();
  return &table;
}
