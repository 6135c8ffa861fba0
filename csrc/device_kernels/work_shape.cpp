#include "device_kernels/work_shape.h"

#include "runtime/driver/device.h"

namespace outboard {
namespace {

// PoCL 3.0 does not compile vectors of 64 bytes for each processor that says it has them: on some
// it ends the process, on others the compilation does not end. Vectors of 32 bytes are nearly as
// fast.
constexpr int kCpuVectorBytes = 32;
constexpr int kGpuVectorBytes = 16;

}  // namespace

WorkShape work_shape(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  const int largest = static_cast<int>(properties.max_work_group_size);
  if (properties.kind == OB_DEVICE_CPU) return {kCpuVectorBytes, 256, std::min(16, largest)};
  return {kGpuVectorBytes, 16, std::min(256, largest)};
}

int group_lanes(c10::DeviceIndex device) {
  return device_properties(device).kind == OB_DEVICE_CPU ? 1 : work_shape(device).local;
}

}  // namespace outboard
