// A kernel that serves some calls, and declines the others: the next kernel gets them.
#include <ATen/ops/clamp_min.h>
#include <outboard/kernel.h>

namespace {

at::Tensor relu(const at::Tensor& self) {
  // Check the limits of the hardware here, before the kernel writes.
  if (!self.is_contiguous() || self.numel() > 4) outboard::decline();
  return at::clamp_min(self, 0);
}

// The router checks dtype and device without calling the kernel.
OUTBOARD_KERNEL("aten::relu", relu, {{at::kFloat, at::kHalf}});

}  // namespace
