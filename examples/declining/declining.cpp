// A kernel that serves some calls alone, and leaves the others to whoever is next.
#include <ATen/ops/clamp_min.h>
#include <outboard/kernel.h>

namespace {

at::Tensor relu(const at::Tensor& self) {
  // What the hardware cannot do is found out here, before anything was written.
  if (!self.is_contiguous() || self.numel() > 4) outboard::decline();
  return at::clamp_min(self, 0);
}

// The dtype and the device are asked about without calling the kernel.
OUTBOARD_KERNEL("aten::relu", relu, {{at::kFloat, at::kHalf}});

}  // namespace
