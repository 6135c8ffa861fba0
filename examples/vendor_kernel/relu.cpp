// A vendor's kernel: `relu` for float32, which replaces the built-in one. To stay short it computes
// on the host. It works on every device: where the host cannot touch device memory, the driver
// copies operands and results. A kernel on the device would be launched on
// outboard::current_queue() and announced with outboard::mark_submitted(), like these copies.
//
// Built by CMakeLists.txt beside this file; torch.ops.load_library() of the result is enough.
#include <ATen/ops/empty_like.h>
#include <outboard/kernel.h>
#include <outboard/runtime.h>

#include <algorithm>
#include <vector>

namespace {

void compute(const float* from, float* to, int64_t count) {
  std::transform(from, from + count, to, [](float x) { return x < 0.0f ? 0.0f : x; });
}

// By copies: address() is a number for the driver; the host must not dereference it.
void compute_on_copies(const at::Tensor& input, const at::Tensor& result) {
  const c10::DeviceIndex device = input.device().index();
  const ob_driver& driver = outboard::driver();
  const ob_queue queue = outboard::current_queue(device);
  std::vector<float> values(static_cast<size_t>(input.numel()));
  const size_t bytes = values.size() * sizeof(float);
  outboard::throw_if_failed(driver.copy_device_to_host(driver.context, queue, values.data(),
                                                       outboard::address(input), bytes),
                            "copy_device_to_host");
  outboard::mark_submitted(device);
  outboard::wait_for_current_queue(device);
  compute(values.data(), values.data(), input.numel());
  outboard::throw_if_failed(
      driver.copy_host_to_device(driver.context, queue, outboard::address(result), values.data(),
                                 bytes),
      "copy_host_to_device");
  outboard::mark_submitted(device);
  outboard::wait_for_current_queue(device);  // before `values` is freed
}

at::Tensor relu(const at::Tensor& self) {
  const at::Tensor input = self.contiguous();
  at::Tensor result = at::empty_like(input);
  if (input.numel() == 0) return result;
  if (outboard::host_can_touch(input)) {
    // host_pointer() waits for the queue; on other devices it raises.
    compute(static_cast<const float*>(outboard::host_pointer(input)),
            static_cast<float*>(outboard::host_pointer(result)), input.numel());
  } else {
    compute_on_copies(input, result);
  }
  return result;
}

OUTBOARD_KERNEL("aten::relu", relu, {{at::kFloat}});

}  // namespace
