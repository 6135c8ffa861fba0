// Memory. A device's addresses are a range of its own that nobody can read or write; its bytes lie
// elsewhere, for the driver and the emulator. First fit in whole pages.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cinttypes>

#include "riscv.h"

namespace riscv {
namespace {

constexpr uint64_t kStackBytes = 8 << 20;
constexpr uint64_t kArgumentBytes = 1 << 20;
constexpr uint64_t kGuardBytes = 1 << 20;
constexpr uint64_t kProgramBytes = uint64_t{1} << 36;  // addresses, not memory

// A range that no memory of the host will get, and that is likely free in other processes, too.
uint64_t reserve(uint64_t bytes) {
  const uint64_t first = uint64_t{1} << 44, last = uint64_t{1} << 46, step = uint64_t{1} << 38;
  for (uint64_t wanted = first; wanted < last; wanted += step) {
    void* found = mmap(reinterpret_cast<void*>(wanted), bytes, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (found == reinterpret_cast<void*>(wanted)) return wanted;
    if (found != MAP_FAILED) munmap(found, bytes);  // by a system that does not know the flag
  }
  fail(OB_OUT_OF_MEMORY, "The host cannot reserve %" PRIu64 " bytes of addresses for a device.",
       bytes);
}

void check_range(uint64_t address, uint64_t bytes) {
  if (address != 0 && bytes != 0 && bytes <= UINT64_MAX - address) return;
  fail(OB_INVALID_ARGUMENT, "%" PRIu64 " bytes at address 0x%" PRIx64 " are no range of memory.",
       bytes, address);
}

}  // namespace

void create_memory(Device& device) {
  AddressSpace& space = device.space;
  space.memory_bytes = g_settings.memory;
  const uint64_t around = 3 * kGuardBytes + kStackBytes + kArgumentBytes;
  const uint64_t bytes = space.memory_bytes + around + kProgramBytes;
  space.memory = reserve(bytes);
  space.stack_bytes = kStackBytes;
  space.stack = space.memory + space.memory_bytes + kGuardBytes + kStackBytes;
  space.arguments = space.stack + kGuardBytes;
  space.argument_bytes = kArgumentBytes;
  space.programs = space.arguments + kArgumentBytes + kGuardBytes;
  space.end = space.memory + bytes;
  device.next_program = space.programs;

  const int file = memfd_create("outboard_riscv", MFD_CLOEXEC);
  void* contents = MAP_FAILED;
  if (file >= 0 && ftruncate(file, static_cast<off_t>(space.memory_bytes)) == 0) {
    contents = mmap(nullptr, space.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (file >= 0) close(file);
  if (contents == MAP_FAILED) {
    fail(OB_OUT_OF_MEMORY,
         "The host has no %" PRIu64 " bytes for a device; OUTBOARD_RISCV_MEMORY sets the size.",
         space.memory_bytes);
  }
  device.contents = static_cast<char*>(contents);
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
  (void)madvise(device.contents + found->first, whole_pages(found->second), MADV_REMOVE);
  device.allocations.erase(found);
  return OB_OK;
}

ob_status memory_info(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes) {
  Device& device = device_at(index);
  std::lock_guard lock(device.memory_mutex);
  *free_bytes = *total_bytes = device.space.memory_bytes;
  for (const auto& [start, bytes] : device.allocations) *free_bytes -= whole_pages(bytes);
  return OB_OK;
}

char* locate(Device& device, ob_address address, uint64_t bytes) {
  check_range(address, bytes);
  const uint64_t offset = address - device.space.memory;
  std::lock_guard lock(device.memory_mutex);
  auto found = device.allocations.upper_bound(offset);
  if (offset < device.space.memory_bytes && found != device.allocations.begin()) {
    --found;
    const uint64_t inside = offset - found->first;
    if (inside < found->second && bytes <= found->second - inside) return device.contents + offset;
  }
  fail(OB_INVALID_ARGUMENT,
       "%" PRIu64 " bytes at 0x%" PRIx64 " do not lie in one allocation of device %d.", bytes,
       address, device.index);
}

void check_host_range(const void* pointer, uint64_t bytes) {
  const uint64_t address = reinterpret_cast<uintptr_t>(pointer);
  check_range(address, bytes);
  for (const auto& device : g_devices) {
    if (address < device->space.end && device->space.memory < address + bytes) {
      fail(OB_INVALID_ARGUMENT, "%p is an address of device %d where host memory belongs.", pointer,
           device->index);
    }
  }
}

}  // namespace riscv
