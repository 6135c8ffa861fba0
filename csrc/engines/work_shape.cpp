#include "engines/work_shape.h"

#include <algorithm>

#include "runtime/device.h"

namespace outboard {

WorkShape work_shape(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  const int largest = static_cast<int>(properties.max_work_group_size);
  if (properties.kind == OB_DEVICE_CPU) return {16, 256, std::min(16, largest)};
  return {4, 4, std::min(256, largest)};
}

}  // namespace outboard
