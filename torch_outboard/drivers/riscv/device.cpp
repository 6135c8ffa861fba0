// Devices: each is one processor of the kind rv64gc.
#include <cstdio>
#include <cstring>

#include "riscv.h"

namespace riscv {

Settings g_settings;
std::vector<std::unique_ptr<Device>>& g_devices = *new std::vector<std::unique_ptr<Device>>;

Device& device_at(int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= g_devices.size()) {
    fail(OB_INVALID_ARGUMENT, "Device %d does not exist: the riscv driver has %zu devices.", index,
         g_devices.size());
  }
  return *g_devices[static_cast<size_t>(index)];
}

ob_status device_properties(int32_t index, ob_device_properties* properties) {
  const Device& device = device_at(index);
  ob_device_properties ours = {};
  ours.struct_size = properties->struct_size;
  std::snprintf(ours.name, sizeof ours.name, "RISC-V processor %d (rv64gc in %s)", index,
                unicorn_version().c_str());
  std::strcpy(ours.vendor, "torch_outboard");
  std::snprintf(ours.driver_version, sizeof ours.driver_version, "%s", compiler_version().c_str());
  ours.kind = OB_DEVICE_ACCELERATOR;
  ours.addressing = OB_ADDRESSING_POINTER;
  ours.host_access = OB_HOST_ACCESS_NONE;
  ours.dtypes = OB_DTYPE_BOOL | OB_DTYPE_UINT8 | OB_DTYPE_INT8 | OB_DTYPE_INT16 | OB_DTYPE_INT32 |
                OB_DTYPE_INT64 | OB_DTYPE_FLOAT16 | OB_DTYPE_BFLOAT16 | OB_DTYPE_FLOAT32 |
                OB_DTYPE_FLOAT64 | OB_DTYPE_COMPLEX64 | OB_DTYPE_COMPLEX128 | OB_DTYPE_UINT16 |
                OB_DTYPE_UINT32 | OB_DTYPE_UINT64;
  ours.total_memory = ours.max_allocation = device.space.memory_bytes;
  ours.alignment = kPage;
  ours.compute_units = 1;
  ours.preferred_vector_width = 4;  // no vectors, but loops that are unrolled
  ours.max_work_group_size = 1;
  ours.local_memory = kLocalMemory;
  ours.least_priority = 0;
  ours.greatest_priority = -1;
  // The caller may have been compiled with an older, shorter struct.
  std::memcpy(properties, &ours, std::min(properties->struct_size, sizeof ours));
  return OB_OK;
}

}  // namespace riscv
