// Memory of devices and pinned memory.
#include <common/system.h>
#include <sys/mman.h>

#include <cstdlib>

#include "ocl.h"

namespace ocl {
namespace {

constexpr uint64_t kPinnedAlignment = 4096;
constexpr uint64_t kHugePage = 2 << 20;

// Pinned memory that is a mapped buffer, by its pointer. Never destroyed.
struct Mapped {
  Device* device;
  cl_mem buffer;
};

struct Pinned {
  std::mutex mutex;
  std::map<void*, Mapped> mapped;
};

Pinned& pinned() {
  static auto* instance = new Pinned;
  return *instance;
}

void* as_pointer(ob_address address) { return reinterpret_cast<void*>(address); }
ob_address as_address(const void* pointer) { return reinterpret_cast<ob_address>(pointer); }

ob_address first_huge_page(ob_address address) {
  return (address + kHugePage - 1) / kHugePage * kHugePage;
}

// Fewer page faults at first use, and fewer TLB misses later. A hint, which may fail.
void use_huge_pages(ob_address address, uint64_t bytes) {
  const ob_address start = first_huge_page(address);
  const ob_address end = (address + bytes) / kHugePage * kHugePage;
  if (start < end) (void)madvise(as_pointer(start), end - start, MADV_HUGEPAGE);
}

// On a CPU, memory of whole huge pages begins at one. OpenCL aligns to the size of a type at most,
// so one huge page more is allocated; untouched pages take no memory. `memory` is the argument of
// clSVMFree.
ob_address allocate_shared(Device& device, uint64_t bytes, void*& memory) {
  const cl_bitfield grain =
      device.memory == MemoryKind::kShared ? CL_MEM_SVM_FINE_GRAIN_BUFFER : cl_bitfield{0};
  const cl_bitfield flags = CL_MEM_READ_WRITE | grain;
  const size_t alignment = device.properties.alignment;
  const bool huge = device.on_cpu() && bytes >= kHugePage;
  memory = nullptr;
  if (huge) {
    memory = device.api->clSVMAlloc(device.context, flags, bytes + kHugePage, alignment);
  }
  const bool begins_later = memory != nullptr;
  if (!begins_later) memory = device.api->clSVMAlloc(device.context, flags, bytes, alignment);
  if (memory == nullptr) {
    fail(OB_OUT_OF_MEMORY, "clSVMAlloc cannot allocate %" PRIu64 " bytes on device %d.", bytes,
         device.index);
  }
  const ob_address start = begins_later ? first_huge_page(as_address(memory)) : as_address(memory);
  if (huge) use_huge_pages(start, bytes);
  return start;
}

// A buffer, and a range of addresses without access that represents it.
ob_address allocate_buffer(Device& device, uint64_t bytes, cl_mem& buffer) {
  void* addresses = mmap(nullptr, whole_pages(bytes), PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (addresses == MAP_FAILED) {
    fail(OB_OUT_OF_MEMORY, "The host cannot reserve %" PRIu64 " bytes of addresses for device %d.",
         bytes, device.index);
  }
  cl_int code = CL_SUCCESS;
  buffer = device.api->clCreateBuffer(device.context, CL_MEM_READ_WRITE, bytes, nullptr, &code);
  if (code != CL_SUCCESS) {
    munmap(addresses, whole_pages(bytes));
    fail(OB_OUT_OF_MEMORY, "clCreateBuffer of %" PRIu64 " bytes on device %d returned %s.", bytes,
         device.index, code_name(code).c_str());
  }
  return as_address(addresses);
}

// Counts `bytes` as in use, unless that is too much.
void take_from_budget(Device& device, uint64_t bytes) {
  const ob_device_properties& p = device.properties;
  std::unique_lock lock(device.memory_mutex);
  if (bytes > p.max_allocation || bytes > p.total_memory - device.allocated) {
    fail(OB_OUT_OF_MEMORY,
         "Device %d cannot allocate %" PRIu64 " bytes: %" PRIu64 " of its %" PRIu64
         " bytes are in use, and one allocation "
         "has at most %" PRIu64 ".",
         device.index, bytes, device.allocated, p.total_memory, p.max_allocation);
  }
  device.allocated += bytes;
}

void give_back_to_budget(Device& device, uint64_t bytes) {
  std::unique_lock lock(device.memory_mutex);
  device.allocated -= bytes;
}

void release(Device& device, ob_address address, const Allocation& allocation) {
  if (allocation.buffer == nullptr) {
    device.api->clSVMFree(device.context, allocation.memory);
    return;
  }
  const cl_int code = device.api->clReleaseMemObject(allocation.buffer);
  munmap(as_pointer(address), whole_pages(allocation.bytes));
  check(code, "clReleaseMemObject");
}

bool overlaps(Device& device, ob_address address, uint64_t bytes) {
  std::shared_lock lock(device.memory_mutex);
  const auto after = device.allocations.lower_bound(address + bytes);
  if (after == device.allocations.begin()) return false;
  const auto& [start, allocation] = *std::prev(after);
  return address < start + allocation.bytes;
}

// The device whose OpenCL allocates pinned memory: the first with separate memory.
Device* device_for_pinned_memory() {
  for (const auto& device : devices()) {
    if (device->memory != MemoryKind::kShared) return device.get();
  }
  return nullptr;
}

// A buffer in memory of the host, mapped for as long as it lives.
void* map_pinned(Device& device, uint64_t bytes) {
  cl_int code = CL_SUCCESS;
  const OpenCL& api = *device.api;
  cl_mem buffer = api.clCreateBuffer(device.context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR,
                                     bytes, nullptr, &code);
  if (code != CL_SUCCESS) return nullptr;
  void* pointer = nullptr;
  try {
    const auto queue = make_queue(device, 0);
    pointer = api.clEnqueueMapBuffer(queue->commands, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                     0, bytes, 0, nullptr, nullptr, &code);
  } catch (const Failure&) {
    pointer = nullptr;
  }
  if (pointer == nullptr || code != CL_SUCCESS) {
    api.clReleaseMemObject(buffer);
    return nullptr;
  }
  std::lock_guard lock(pinned().mutex);
  pinned().mapped[pointer] = {&device, buffer};
  return pointer;
}

}  // namespace

ob_status allocate(const ob_allocation* wanted, ob_address* address) {
  Device& device = device_at(wanted->device);
  const uint64_t bytes = wanted->bytes;
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  take_from_budget(device, bytes);
  Allocation allocation = {bytes};
  try {
    *address = device.memory == MemoryKind::kHandles
                   ? allocate_buffer(device, bytes, allocation.buffer)
                   : allocate_shared(device, bytes, allocation.memory);
    std::unique_lock lock(device.memory_mutex);
    device.allocations[*address] = allocation;
  } catch (...) {
    give_back_to_budget(device, bytes);
    throw;
  }
  return OB_OK;
}

ob_status deallocate(int32_t index, ob_address address) {
  Device& device = device_at(index);
  Allocation allocation;
  {
    std::unique_lock lock(device.memory_mutex);
    const auto found = device.allocations.find(address);
    if (found == device.allocations.end()) {
      fail(OB_INVALID_ARGUMENT, "0x%" PRIx64 " is not the start of an allocation on device %d.",
           address, index);
    }
    allocation = found->second;
    device.allocations.erase(found);
    device.allocated -= allocation.bytes;
    device.releases.fetch_add(1, std::memory_order_relaxed);
  }
  release(device, address, allocation);
  return OB_OK;
}

ob_status memory_info(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes) {
  Device& device = device_at(index);
  std::shared_lock lock(device.memory_mutex);
  *total_bytes = device.properties.total_memory;
  *free_bytes = *total_bytes - device.allocated;
  return OB_OK;
}

Location locate(Device& device, ob_address address, uint64_t bytes) {
  drivers::check_range(address, bytes);
  {
    std::shared_lock lock(device.memory_mutex);
    const auto after = device.allocations.upper_bound(address);
    if (after != device.allocations.begin()) {
      const auto& [start, allocation] = *std::prev(after);
      const uint64_t offset = address - start;
      if (offset < allocation.bytes && bytes <= allocation.bytes - offset) {
        return {allocation.buffer, offset, allocation.bytes, as_pointer(address)};
      }
    }
  }
  // Other addresses are memory of the host, or wrong.
  bool allowed = device.host_memory_is_device_memory;
  for (const auto& other : devices()) allowed = allowed && !overlaps(*other, address, bytes);
  if (!allowed) {
    fail(OB_INVALID_ARGUMENT,
         "%" PRIu64 " bytes at 0x%" PRIx64 " do not lie in one allocation of device %d.", bytes,
         address, device.index);
  }
  return {nullptr, 0, 0, as_pointer(address)};
}

void check_host_range(const void* pointer, uint64_t bytes) {
  drivers::check_range(pointer, bytes);
  for (const auto& device : devices()) {
    if (device->memory != MemoryKind::kShared && overlaps(*device, as_address(pointer), bytes)) {
      fail(OB_INVALID_ARGUMENT, "%p is an address of device %d where host memory belongs.", pointer,
           device->index);
    }
  }
}

ob_status host_allocate(const ob_host_allocation* wanted, void** pointer) {
  const uint64_t bytes = wanted->bytes;
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "An allocation of 0 bytes was asked for.");
  *pointer = nullptr;
  if (bytes <= PTRDIFF_MAX) {
    if (Device* device = device_for_pinned_memory()) {
      *pointer = map_pinned(*device, bytes);
    } else if (posix_memalign(pointer, kPinnedAlignment, bytes) != 0) {
      *pointer = nullptr;
    }
  }
  if (*pointer == nullptr) {
    fail(OB_OUT_OF_MEMORY, "The host cannot allocate %" PRIu64 " bytes of pinned memory.", bytes);
  }
  return OB_OK;
}

ob_status host_deallocate(void* pointer) {
  Mapped mapped = {};
  {
    std::lock_guard lock(pinned().mutex);
    const auto found = pinned().mapped.find(pointer);
    if (found != pinned().mapped.end()) {
      mapped = found->second;
      pinned().mapped.erase(found);
    }
  }
  if (mapped.device == nullptr) {
    std::free(pointer);
    return OB_OK;
  }
  const auto queue = make_queue(*mapped.device, 0);
  const OpenCL& api = *mapped.device->api;
  const cl_int code =
      api.clEnqueueUnmapMemObject(queue->commands, mapped.buffer, pointer, 0, nullptr, nullptr);
  check(api.clReleaseMemObject(mapped.buffer), "clReleaseMemObject");
  check(code, "clEnqueueUnmapMemObject");
  return OB_OK;
}

void set_memory_functions(ob_driver& table) {
  OB_SET(table, allocate);
  OB_SET(table, deallocate);
  OB_SET(table, memory_info);
  OB_SET(table, host_allocate);
  OB_SET(table, host_deallocate);
}

}  // namespace ocl
