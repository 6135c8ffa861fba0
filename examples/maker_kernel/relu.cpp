// A maker's kernel: `relu` for float32, in place of the kit's. It runs on the host, to stay short;
// a device kernel would be launched on outboard::current_queue() and announced with
// outboard::mark_submitted().
//
// Built by CMakeLists.txt beside this file; torch.ops.load_library() of the result is enough.
#include <ATen/ops/empty_like.h>
#include <outboard/kernel.h>
#include <outboard/runtime.h>

#include <algorithm>

namespace {

at::Tensor relu(const at::Tensor& self) {
  const at::Tensor input = self.contiguous();
  at::Tensor result = at::empty_like(input);
  outboard::wait_for_current_queue(self.device().index());
  const auto* from = reinterpret_cast<const float*>(outboard::address(input));
  auto* to = reinterpret_cast<float*>(outboard::address(result));
  std::transform(from, from + input.numel(), to, [](float x) { return std::max(x, 0.0f); });
  return result;
}

OUTBOARD_KERNEL("aten::relu", relu, {{at::kFloat}});

}  // namespace
