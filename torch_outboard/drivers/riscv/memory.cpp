// Memory. A device's addresses are a range of its own without access; its bytes lie
// elsewhere, for the driver and the emulator. First fit in whole pages.
#include <sys/mman.h>

#include "riscv.h"

namespace riscv {
namespace {

constexpr uint64_t kGuard = 1 << 20;  // bytes between parts of a device's addresses
constexpr uint64_t kProgramBytes = uint64_t{1} << 36;  // addresses, not memory

void check_range(uint64_t address, uint64_t bytes) {
  if (address != 0 && bytes != 0 && bytes <= UINT64_MAX - address) return;
  fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes at address 0x%" PRIx64 " are no range of memory.",
       bytes, address);
}

char* map(uint64_t bytes, int access) {
  void* mapped = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped != MAP_FAILED) return static_cast<char*>(mapped);
  fail(OB_OUT_OF_MEMORY, "The host cannot reserve %" PRIu64 " bytes (OUTBOARD_RISCV_MEMORY).",
       bytes);
}

ob_status allocate(const ob_allocation* wanted, ob_address* address) {
  Device& device = device_at(wanted->device);
  if (wanted->bytes == 0) fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  const uint64_t total = device.space.memory_bytes;
  const uint64_t bytes = wanted->bytes > total ? UINT64_MAX : whole_pages(wanted->bytes);
  std::lock_guard lock(device.memory_mutex);
  uint64_t start = 0, used = 0;
  for (const auto& [other, other_bytes] : device.allocations) {
    used += whole_pages(other_bytes);
    if (other - start < bytes) start = other + whole_pages(other_bytes);
  }
  if (bytes > total - start) {
    fail(OB_OUT_OF_MEMORY,
         "Device %d has no free range of %" PRIu64 " bytes: %" PRIu64 " of its %" PRIu64
         " bytes are in use; OUTBOARD_RISCV_MEMORY sets the size.",
         device.index, wanted->bytes, used, total);
  }
  device.allocations[start] = wanted->bytes;
  *address = device.space.memory + start;
  return OB_OK;
}

ob_status deallocate(int32_t index, ob_address address) {
  Device& device = device_at(index);
  std::lock_guard lock(device.memory_mutex);
  const auto found = device.allocations.find(address - device.space.memory);
  if (found == device.allocations.end()) {
    fail(OB_INVALID_ARGUMENT, "0x%" PRIx64 " is not the start of an allocation on device %d.",
         address, index);
  }
  // Back to the system.
  (void)madvise(device.contents + found->first, whole_pages(found->second), MADV_DONTNEED);
  device.allocations.erase(found);
  return OB_OK;
}

}  // namespace

void create_memory(Device& device, uint64_t bytes) {
  AddressSpace& space = device.space;
  space.memory_bytes = whole_pages(bytes);
  space.stack_bytes = 8 << 20;
  space.argument_bytes = 1 << 20;
  const uint64_t own = space.stack_bytes + space.argument_bytes + 3 * kGuard + kProgramBytes;
  // No memory of the host gets these addresses.
  space.memory = reinterpret_cast<uintptr_t>(map(space.memory_bytes + own, PROT_NONE));
  space.stack = space.memory + space.memory_bytes + kGuard;
  space.arguments = space.stack + space.stack_bytes + kGuard;
  device.next_program = space.arguments + space.argument_bytes + kGuard;
  space.end = space.memory + space.memory_bytes + own;
  device.contents = map(space.memory_bytes, PROT_READ | PROT_WRITE);
}

void set_memory_functions(ob_driver& table) {
  OB_SET(table, allocate);
  OB_SET(table, deallocate);
}

}  // namespace riscv

// ---- What drivers/queues asks for

ob_status locate(int32_t index, ob_address address, uint64_t bytes, char** contents) try {
  using namespace riscv;
  check_range(address, bytes);
  Device& device = device_at(index);
  const uint64_t offset = address - device.space.memory;
  std::lock_guard lock(device.memory_mutex);
  auto found = device.allocations.upper_bound(offset);
  if (offset < device.space.memory_bytes && found != device.allocations.begin()) {
    --found;
    const uint64_t inside = offset - found->first;
    if (inside < found->second && bytes <= found->second - inside) {
      *contents = device.contents + offset;
      return OB_OK;
    }
  }
  drivers::fail(OB_INVALID_ARGUMENT,
                "%" PRIu64 " bytes at 0x%" PRIx64 " do not lie in one allocation of device %d.",
                bytes, address, index);
} catch (...) {
  return drivers::keep_exception();
}

ob_status check_host_range(const void* pointer, uint64_t bytes) try {
  using namespace riscv;
  const uint64_t address = reinterpret_cast<uintptr_t>(pointer);
  check_range(address, bytes);
  for (const auto& device : g_devices) {
    if (address < device->space.end && device->space.memory < address + bytes) {
      drivers::fail(OB_INVALID_ARGUMENT, "%p is an address of device %d where host memory belongs.",
                    pointer, device->index);
    }
  }
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}
