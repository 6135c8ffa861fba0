// A device is one range of reserved addresses, and allocations are whole pages in it: first fit.
// Memory shared with other processes is an unnamed file, mapped over such pages.
#include "memory.h"

#include <common/failures.h>
#include <common/system.h>
#include <fcntl.h>
#include <queues/queues.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace memory {
namespace {

using drivers::check;
using drivers::fail;

constexpr size_t kPinnedAlignment = 4096;

// An open file, or none.
class File {
 public:
  File() = default;
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  explicit operator bool() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// A descriptor above those of the standard streams.
File duplicate(int descriptor) {
  return File(fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

struct Allocation {
  uint64_t bytes;  // as requested
  File file;       // with the pages; none: private pages
};

struct Device {
  ob_address base;  // device addresses are [base, base + memory)
  char* contents;   // the same bytes for the driver; equals base when shared
  std::mutex mutex;
  std::map<uint64_t, Allocation> allocations;  // by their bytes from the base
  uint64_t allocated;                          // bytes in whole pages
};

// Never destroyed: threads use memory until the process ends.
Device* const g_devices = new Device[MAX_DEVICES]();
memory_settings g_settings;  // the same for all devices
int32_t g_device_count = 0;

Device& device_at(int32_t index) {
  check(check_device(index));
  return g_devices[index];
}

// Reserves addresses; the system provides pages at the first write.
char* reserve(uint64_t bytes, int protection) {
  void* reserved =
      mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved != MAP_FAILED) return static_cast<char*>(reserved);
  fail(OB_OUT_OF_MEMORY, "The host cannot reserve %" PRIu64 " bytes of addresses for a device.",
       bytes);
}

// Maps the pages of a file over a range; for no file, private pages of zeros.
bool map_pages(const Device& owner, uint64_t start, uint64_t size, int file) {
  const int kind = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
  void* mapped =
      mmap(owner.contents + start, size, PROT_READ | PROT_WRITE, kind | MAP_FIXED, file, 0);
  if (mapped == MAP_FAILED) return false;
  if (file < 0) (void)madvise(mapped, size, MADV_HUGEPAGE);
  return true;
}

// Allocates the pages of `file`, or private pages.
ob_address take_pages(int32_t index, uint64_t bytes, File file) {
  Device& owner = g_devices[index];
  const uint64_t size = bytes > g_settings.bytes ? UINT64_MAX : whole_pages(bytes);
  std::lock_guard lock(owner.mutex);
  uint64_t start = 0;
  for (const auto& [offset, allocation] : owner.allocations) {
    if (offset - start >= size) break;
    start = offset + whole_pages(allocation.bytes);
  }
  if (g_settings.bytes - start < size) {
    fail(OB_OUT_OF_MEMORY,
         "Device %d has no free range of %" PRIu64 " bytes: %" PRIu64 " of its %" PRIu64
         " bytes are in use; %s sets the size.",
         index, bytes, owner.allocated, g_settings.bytes, g_settings.name);
  }
  const int pages = file.get();
  const auto added = owner.allocations.emplace(start, Allocation{bytes, std::move(file)}).first;
  if (pages >= 0 && !map_pages(owner, start, size, pages)) {
    const int error = errno;
    owner.allocations.erase(added);
    fail(OB_OUT_OF_MEMORY, "%" PRIu64 " bytes of shared memory cannot be mapped: %s.", bytes,
         std::strerror(error));
  }
  owner.allocated += size;
  return owner.base + start;
}

// Seals of our files: an access to a truncated file would end the process.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Creates an unnamed file of zeros.
File create_file(uint64_t bytes) {
  const File created(memfd_create("outboard_host", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  File file = duplicate(created.get());
  if (!file || ftruncate(file.get(), static_cast<off_t>(whole_pages(bytes))) != 0 ||
      fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    fail(OB_OUT_OF_MEMORY, "The host has no %" PRIu64 " bytes of shared memory: %s.", bytes,
         std::strerror(errno));
  }
  return file;
}

ob_status allocate(const ob_allocation* wanted, ob_address* address) {
  const uint64_t bytes = wanted->bytes;
  device_at(wanted->device);
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  const uint32_t flags = OB_COVERS(wanted, flags) ? wanted->flags : 0;
  const bool shareable = (flags & OB_ALLOCATION_SHAREABLE) != 0 && bytes <= g_settings.bytes;
  *address = take_pages(wanted->device, bytes, shareable ? create_file(bytes) : File());
  return OB_OK;
}

ob_status deallocate(int32_t index, ob_address address) {
  Device& owner = device_at(index);
  const uint64_t offset = address - owner.base;
  std::lock_guard lock(owner.mutex);
  const auto found = owner.allocations.find(offset);
  if (found == owner.allocations.end()) {
    fail(OB_INVALID_ARGUMENT, "0x%" PRIx64 " is not the start of an allocation on device %d.",
         address, index);
  }
  const uint64_t size = whole_pages(found->second.bytes);
  if (!found->second.file) {
    (void)madvise(owner.contents + offset, size, MADV_DONTNEED);  // back to the system
  } else if (!map_pages(owner, offset, size, -1)) {
    fail(OB_ERROR, "Shared memory cannot be freed: %s.", std::strerror(errno));
  }
  owner.allocations.erase(found);
  owner.allocated -= size;
  return OB_OK;
}

ob_status memory_export(int32_t index, ob_address address, ob_memory_handle* handle) {
  Device& owner = device_at(index);
  std::lock_guard lock(owner.mutex);
  const auto found = owner.allocations.find(address - owner.base);
  if (found == owner.allocations.end() || !found->second.file) {
    fail(OB_INVALID_ARGUMENT,
         "0x%" PRIx64
         " is not the start of shareable memory on device %d: allocate it with "
         "OB_ALLOCATION_SHAREABLE.",
         address, index);
  }
  const int file = fcntl(found->second.file.get(), F_DUPFD_CLOEXEC, 0);
  if (file < 0) fail(OB_ERROR, "Shared memory cannot be exported: %s.", std::strerror(errno));
  *handle = {handle->struct_size, file, found->second.bytes, {}};  // the descriptor says it all
  return OB_OK;
}

ob_status memory_import(int32_t index, const ob_memory_handle* handle, ob_address* address) {
  device_at(index);
  const uint64_t bytes = handle->bytes;
  struct stat status = {};
  if (bytes == 0 || bytes > g_settings.bytes || fcntl(handle->descriptor, F_GET_SEALS) != kSeals ||
      fstat(handle->descriptor, &status) != 0 ||
      static_cast<uint64_t>(status.st_size) != whole_pages(bytes)) {
    fail(OB_INVALID_ARGUMENT,
         "Descriptor %d is not shared memory of %" PRIu64 " bytes on a host device.",
         handle->descriptor, bytes);
  }
  File file = duplicate(handle->descriptor);
  if (!file) fail(OB_ERROR, "Shared memory cannot be imported: %s.", std::strerror(errno));
  *address = take_pages(index, bytes, std::move(file));
  return OB_OK;
}

ob_status memory_info(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes) {
  Device& owner = device_at(index);
  std::lock_guard lock(owner.mutex);
  *free_bytes = g_settings.bytes - owner.allocated;
  *total_bytes = g_settings.bytes;
  return OB_OK;
}

// Pinned memory. Threads copy from any memory; no hardware needs pages locked in place.
ob_status host_allocate(const ob_host_allocation* wanted, void** pointer) {
  const uint64_t bytes = wanted->bytes;
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  if (bytes > PTRDIFF_MAX || posix_memalign(pointer, kPinnedAlignment, bytes) != 0) {
    fail(OB_OUT_OF_MEMORY, "The host cannot allocate %" PRIu64 " bytes of pinned memory.", bytes);
  }
  return OB_OK;
}

ob_status host_deallocate(void* pointer) {
  std::free(pointer);
  return OB_OK;
}

ob_status host_register(void* pointer, uint64_t bytes) {
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "0 bytes of memory cannot be registered.");
  return check_host_range(pointer, bytes);
}

ob_status host_unregister(void* pointer) { return check_host_range(pointer, 1); }

bool overlaps(const Device& other, uint64_t address, uint64_t bytes) {
  return address < other.base + g_settings.bytes && other.base < address + bytes;
}

// Those of the table that queues.h declares.

char* locate(int32_t index, ob_address address, uint64_t bytes) {
  drivers::check_range(address, bytes);
  for (int32_t i = 0; i < g_device_count; ++i) {
    Device& owner = g_devices[i];
    if (!overlaps(owner, address, bytes)) continue;
    const uint64_t offset = address - owner.base;
    std::lock_guard lock(owner.mutex);
    const auto after = owner.allocations.upper_bound(offset);
    if (i == index && after != owner.allocations.begin()) {
      const auto& [start, allocation] = *std::prev(after);
      const uint64_t size = allocation.bytes;
      if (bytes <= size && offset - start <= size - bytes) return owner.contents + offset;
    }
    fail(OB_INVALID_ARGUMENT,
         "%" PRIu64 " bytes at 0x%" PRIx64 " do not lie in one allocation of device %d.", bytes,
         address, index);
  }
  if (!g_settings.shared) {
    fail(OB_INVALID_ARGUMENT, "0x%" PRIx64 " is not an address of device %d.", address, index);
  }
  return reinterpret_cast<char*>(address);  // memory of the host is device memory, too
}

// Detects NULL, ranges beyond the last address, and device addresses.
void check_host_memory(const void* pointer, uint64_t bytes) {
  drivers::check_range(pointer, bytes);
  for (int32_t i = 0; i < g_device_count && !g_settings.shared; ++i) {
    if (overlaps(g_devices[i], reinterpret_cast<uintptr_t>(pointer), bytes)) {
      fail(OB_INVALID_ARGUMENT, "%p is an address of device %d where host memory belongs.", pointer,
           i);
    }
  }
}

}  // namespace
}  // namespace memory

ob_status create_memory(const memory_settings* wanted, device_memory* created) try {
  using namespace memory;
  Device& device = g_devices[g_device_count];
  g_settings = *wanted;
  device.contents = reserve(wanted->bytes, PROT_READ | PROT_WRITE);
  // Separate: device addresses are a second range, without access.
  char* base = wanted->shared ? device.contents : reserve(wanted->bytes, PROT_NONE);
  device.base = reinterpret_cast<uintptr_t>(base);
  // Faster first writes. A hint, which may fail.
  (void)madvise(device.contents, wanted->bytes, MADV_HUGEPAGE);
  ++g_device_count;
  *created = {device.base, device.contents};
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

ob_status locate(int32_t device, ob_address address, uint64_t bytes, char** contents) try {
  *contents = memory::locate(device, address, bytes);
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

ob_status check_host_range(const void* pointer, uint64_t bytes) try {
  memory::check_host_memory(pointer, bytes);
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

void set_memory_functions(ob_driver* table) {
  using namespace memory;
  OB_SET(*table, allocate);
  OB_SET(*table, deallocate);
  OB_SET(*table, memory_info);
  OB_SET(*table, host_allocate);
  OB_SET(*table, host_deallocate);
  OB_SET(*table, host_register);
  OB_SET(*table, host_unregister);
  OB_SET(*table, memory_export);
  OB_SET(*table, memory_import);
  table->memory_close = table->deallocate;
}
