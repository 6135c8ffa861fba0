#include "device_kernels/product/product_blocks.h"

#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

// CPU: the sums of a tile and the operands of a step fill the vector registers, 16, or 32 of 64
// bytes. With one row more, compilers spill sums in each step, which halves the speed. GPU: many
// small tiles.
constexpr ProductBlocks kCpuBlocks = {5, 2, 8};
constexpr ProductBlocks kWideCpuBlocks = {12, 2, 8};
constexpr ProductBlocks kGpuBlocks = {4, 1, 1};

}  // namespace

ProductBlocks product_blocks(c10::DeviceIndex device) {
  if (device_properties(device).kind != OB_DEVICE_CPU) return kGpuBlocks;
  return work_shape(device).vector_bytes == 64 ? kWideCpuBlocks : kCpuBlocks;
}

}  // namespace outboard
