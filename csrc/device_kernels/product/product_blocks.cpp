#include "device_kernels/product/product_blocks.h"

#include <c10/util/Exception.h>

#include <map>
#include <mutex>
#include <utility>

#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

// On a processor the sums of a tile and what is multiplied just now fill its vector registers, 16,
// or 32 where they have 64 bytes. One row more, and compilers begin to move sums about in each
// step, which halves the speed. On a GPU tiles are small, and there are many of them.
constexpr ProductBlocks kCpuBlocks = {5, 2, 8};
constexpr ProductBlocks kWideCpuBlocks = {12, 2, 8};
constexpr ProductBlocks kGpuBlocks = {4, 1, 1};
constexpr ProductBlocks kLargest = {32, 8, 64};

struct Chosen {
  std::mutex mutex;
  std::map<std::pair<c10::DeviceIndex, at::ScalarType>, ProductBlocks> blocks;
};

Chosen& chosen() {
  static auto* state = new Chosen;  // leaked: threads may multiply until the process ends
  return *state;
}

}  // namespace

ProductBlocks product_blocks(c10::DeviceIndex device, at::ScalarType dtype) {
  {
    std::lock_guard<std::mutex> lock(chosen().mutex);
    const auto found = chosen().blocks.find({device, dtype});
    if (found != chosen().blocks.end()) return found->second;
  }
  if (device_properties(device).kind != OB_DEVICE_CPU) return kGpuBlocks;
  return work_shape(device).vector_bytes == 64 ? kWideCpuBlocks : kCpuBlocks;
}

void set_product_blocks(c10::DeviceIndex device, at::ScalarType dtype,
                        const ProductBlocks& blocks) {
  const auto check = [](const char* what, int number, int largest) {
    TORCH_CHECK_VALUE(number >= 1 && number <= largest, "tiles of products have 1 to ", largest,
                      " ", what, ", not ", number);
  };
  check("rows", blocks.rows, kLargest.rows);
  check("vectors", blocks.vectors, kLargest.vectors);
  check("panels", blocks.panels, kLargest.panels);
  std::lock_guard<std::mutex> lock(chosen().mutex);
  chosen().blocks[{device, dtype}] = blocks;
}

}  // namespace outboard
