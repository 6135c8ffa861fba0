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

size_t most_calls(c10::DeviceIndex device, size_t pointers, size_t bytes, size_t common,
                  size_t common_bytes) {
  constexpr size_t kArguments = 240;      // per launch, without common ones
  constexpr size_t kArgumentBytes = 992;  // OpenCL guarantees 1024; alignment takes some
  const bool handles = device_properties(device).addressing == OB_ADDRESSING_HANDLE;
  const size_t pointer = handles ? 16 : 8;
  const size_t taken = std::min(kArgumentBytes, common * pointer + common_bytes);
  const size_t each = pointers * pointer + bytes + 2 * sizeof(uint32_t);
  const size_t room = std::min(kMostCalls, (kArgumentBytes - taken) / each);
  return pointers == 0 ? room : std::min(room, kArguments / pointers);
}

}  // namespace outboard
