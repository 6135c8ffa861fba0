// Devices: their number, properties and dtypes, the current one of a thread, and their reset.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <outboard/driver.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "runtime/export.h"

namespace outboard {

constexpr int kMaxDevices = 64;

// 0 without a usable driver. The first call asks the driver for its devices and checks their
// properties.
OUTBOARD_API c10::DeviceIndex device_count() noexcept;
// The same, but raises the reason why there is no usable driver.
OUTBOARD_API c10::DeviceIndex device_count_or_throw();
// Raises for an index out of range, naming the range.
OUTBOARD_API void check_device_index(c10::DeviceIndex device);
OUTBOARD_API const ob_device_properties& device_properties(c10::DeviceIndex device);

OUTBOARD_API c10::DeviceIndex current_device() noexcept;
OUTBOARD_API void set_device(c10::DeviceIndex device);
// Sets the current device and returns the previous one. -1 sets nothing.
OUTBOARD_API c10::DeviceIndex exchange_device(c10::DeviceIndex device);

// Whether host code may use device addresses as pointers while the device is idle, so that CPU
// kernels need no copies.
OUTBOARD_API bool shares_host_memory(c10::DeviceIndex device);
// Whether the device can use any host memory, so that results of CPU kernels can be adopted.
OUTBOARD_API bool adopts_host_memory(c10::DeviceIndex device);

// Releases everything that the kit holds on a device and lets the driver reset it. Streams and
// events stay; work under way and deferred errors are dropped. No other thread may use the device
// meanwhile. Raises RuntimeError while tensors or captured graphs exist on it, NotImplementedError
// if the driver cannot reset.
OUTBOARD_API void reset_device(c10::DeviceIndex device);

inline c10::Device device_of(c10::DeviceIndex device) {
  return c10::Device(c10::DeviceType::PrivateUse1, device);
}

// ---- PyTorch's dtypes by their bits in the driver contract, OB_DTYPE_*

// In the order of the bits.
inline constexpr at::ScalarType kContractDtypes[] = {
    at::kBool,
    at::kByte,
    at::kChar,
    at::kShort,
    at::kInt,
    at::kLong,
    at::kHalf,
    at::kBFloat16,
    at::kFloat,
    at::kDouble,
    at::kComplexFloat,
    at::kComplexDouble,
    at::kUInt16,
    at::kUInt32,
    at::kUInt64,
    at::kFloat8_e4m3fn,
    at::kFloat8_e5m2,
    at::kFloat8_e4m3fnuz,
    at::kFloat8_e5m2fnuz,
    at::kFloat8_e8m0fnu,
};
static_assert(OB_DTYPE_FLOAT8_E8M0FNU == 1u << (std::size(kContractDtypes) - 1));

// The bit of a dtype; 0 if the contract has none.
constexpr uint32_t contract_dtype(at::ScalarType dtype) {
  for (size_t i = 0; i < std::size(kContractDtypes); ++i) {
    if (kContractDtypes[i] == dtype) return uint32_t{1} << i;
  }
  return 0;
}

// ---- Scopes

// Sets the current device for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(c10::DeviceIndex device) : previous_(exchange_device(device)) {}
  ~DeviceScope() { exchange_device(previous_); }
  C10_DISABLE_COPY_AND_ASSIGN(DeviceScope);

 private:
  c10::DeviceIndex previous_;
};

}  // namespace outboard
