#include "device_kernels/work_shape.h"

#include "runtime/driver/device.h"

namespace outboard {
namespace {

constexpr int kUsualVectorBytes = 32;
constexpr int kGpuVectorBytes = 16;

// The device's preferred vector size, clamped to 16 to 64 bytes.
int vector_bytes(const ob_device_properties& properties) {
  const uint32_t width = properties.preferred_vector_width;
  if (width == 0) return kUsualVectorBytes;
  return width >= 16 ? 64 : width >= 8 ? 32 : 16;
}

}  // namespace

WorkShape work_shape(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  const int largest = static_cast<int>(properties.max_work_group_size);
  if (properties.kind == OB_DEVICE_CPU) {
    return {vector_bytes(properties), 256, std::min(16, largest)};
  }
  // GPUs report 1, because work-items are their lanes: vectors only help memory access. Adjacent
  // work-items access adjacent memory.
  if (properties.kind == OB_DEVICE_GPU) return {kGpuVectorBytes, 0, std::min(256, largest)};
  return {vector_bytes(properties), 16, std::min(256, largest)};
}

int group_lanes(c10::DeviceIndex device) {
  return device_properties(device).kind == OB_DEVICE_CPU ? 1 : work_shape(device).local;
}

}  // namespace outboard
