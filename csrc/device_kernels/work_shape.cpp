#include "device_kernels/work_shape.h"

#include "runtime/driver/device.h"

namespace outboard {
namespace {

// PoCL 3.0 does not compile vectors of 64 bytes for each processor that says it has them: on some
// it ends the process, on others the compilation does not end. Vectors of 32 bytes are nearly as
// fast.
constexpr int kCpuVectorBytes = 32;
constexpr int kGpuVectorBytes = 16;

// What the device prefers, from 16 bytes to `most`; `most` where it says nothing.
int vector_bytes(const ob_device_properties& properties, int most) {
  const uint32_t width = properties.preferred_vector_width;
  if (width == 0) return most;
  const uint32_t bytes = width >= 8 ? 32 : 16;
  return std::min(most, static_cast<int>(bytes));
}

}  // namespace

WorkShape work_shape(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  const int largest = static_cast<int>(properties.max_work_group_size);
  if (properties.kind == OB_DEVICE_CPU) {
    return {vector_bytes(properties, kCpuVectorBytes), 256, std::min(16, largest)};
  }
  // A GPU says 1, since its lanes are work items: wide vectors are for its memory's sake.
  if (properties.kind == OB_DEVICE_GPU) return {kGpuVectorBytes, 16, std::min(256, largest)};
  return {vector_bytes(properties, kCpuVectorBytes), 16, std::min(256, largest)};
}

int group_lanes(c10::DeviceIndex device) {
  return device_properties(device).kind == OB_DEVICE_CPU ? 1 : work_shape(device).local;
}

}  // namespace outboard
