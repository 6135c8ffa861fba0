// Launching kernels: the grid, the arguments (without heap allocation), and the test launch that
// tells whether a device's compiler works.
#pragma once

#include <c10/util/Exception.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "runtime/export.h"
#include "runtime/programs/program.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Work-items of a launch. `global` is rounded up to a multiple of `local`, so kernels check bounds.
struct Grid {
  uint32_t dimensions = 1;
  uint64_t global[3] = {1, 1, 1};
  uint64_t local[3] = {1, 1, 1};

  static Grid linear(uint64_t items, uint64_t local_size) {
    Grid grid;
    grid.local[0] = local_size;
    grid.global[0] = (items + local_size - 1) / local_size * local_size;
    return grid;
  }
};

// The arguments of a launch, in the order of the kernel's parameters.
class LaunchArguments {
 public:
  // For a parameter OB_POINTER(type, name): an address in device memory.
  LaunchArguments& address(ob_address address) {
    ob_argument& argument = next(OB_ARGUMENT_ADDRESS, 0);
    argument.address = address;
    return *this;
  }
  LaunchArguments& address(const void* pointer) {
    return address(reinterpret_cast<ob_address>(pointer));
  }
  // For a parameter of the same size and layout as `value`.
  template <class T>
  LaunchArguments& value(const T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    return bytes(&value, sizeof(T));
  }
  LaunchArguments& bytes(const void* data, size_t size) {
    TORCH_INTERNAL_ASSERT(used_ + size <= values_.size(), "a launch has too large arguments");
    ob_argument& argument = next(OB_ARGUMENT_VALUE, size);
    std::memcpy(values_.data() + used_, data, size);
    argument.value = values_.data() + used_;
    used_ += (size + 7) / 8 * 8;
    return *this;
  }
  // For a parameter `__local type *`.
  LaunchArguments& local(size_t size) {
    next(OB_ARGUMENT_LOCAL, size);
    local_bytes_ += size;
    return *this;
  }

  LaunchArguments() = default;
  C10_DISABLE_COPY_AND_ASSIGN(LaunchArguments);  // values point into the object

  const ob_argument* data() const noexcept { return arguments_.data(); }
  uint32_t size() const noexcept { return count_; }
  // Total local memory.
  uint64_t local_bytes() const noexcept { return local_bytes_; }

 private:
  ob_argument& next(ob_argument_kind kind, size_t size) {
    TORCH_INTERNAL_ASSERT(count_ < arguments_.size(), "a launch has too many arguments");
    ob_argument& argument = arguments_[count_++];
    argument = {kind, static_cast<uint32_t>(size), 0, nullptr};
    return argument;
  }

  uint32_t count_ = 0;
  size_t used_ = 0;
  uint64_t local_bytes_ = 0;
  // OpenCL guarantees room for 1024 bytes: 256 numbers of 4, each in 8 bytes here.
  std::array<ob_argument, 256> arguments_;  // uninitialized beyond count_
  alignas(16) std::array<std::byte, 2048> values_;
};

// Enqueues `kernel` on `stream`, a stream of the kernel's device. Does not wait. Raises ValueError
// for a work-group or local memory larger than the kernel can have there.
OUTBOARD_API void launch(StreamState& stream, Kernel& kernel, const Grid& grid,
                         const LaunchArguments& arguments);

// Why the compiler of a device does not work, or nothing: one may refuse everything because it does
// not know the processor. The first call for a compiler builds and runs a kernel that does nothing,
// in milliseconds if it is on disk; devices with the same name, vendor and driver version have the
// same compiler. Call it without a lock, for a device that runs code.
OUTBOARD_API std::optional<std::string> compiler_failure(c10::DeviceIndex device);
// Whether compiler_failure was called and found an error.
OUTBOARD_API bool compiler_is_known_to_fail(c10::DeviceIndex device) noexcept;

}  // namespace outboard
