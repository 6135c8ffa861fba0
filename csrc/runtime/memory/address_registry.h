// Addresses of allocations: one registry for segments of device memory and for host memory that
// transfers can use without a copy. Adopted memory (shared_memory.h) is not in it: any number of
// device pointers may lie in the same host memory, and their owners know the rest.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Storage.h>
#include <outboard/driver.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace outboard {

struct Segment;

inline ob_address as_address(const void* pointer) noexcept {
  return static_cast<ob_address>(reinterpret_cast<uintptr_t>(pointer));
}

// Device and host addresses may coincide: each space has its own map.
enum class AddressSpace : uint8_t { kDevice, kHost };

struct Allocation {
  ob_address address;
  size_t bytes;
  c10::DeviceIndex device = -1;
  Segment* segment = nullptr;
  c10::Storage storage = {};  // of registered host memory: kept alive
};

// False if an allocation starts at the address already.
bool add_allocation(AddressSpace space, Allocation allocation);
// Removes the allocation that starts at the address and returns it.
std::optional<Allocation> remove_allocation(AddressSpace space, ob_address address);
// The allocation that contains the address. Works in a forked child, too: deleters ask there.
std::optional<Allocation> find_allocation(AddressSpace space, ob_address address);

}  // namespace outboard
