// Which attention kernel scaled_dot_product_attention takes: the one the CPU would. The kernels
// themselves (_scaled_dot_product_flash_attention_for_cpu and its backward) come through the
// router. The CPU's choice is an ordinary function, so it can be had without calling a stub.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>

namespace outboard::cpu_kernels {

namespace {

// Not if an extension that was loaded before has its own; one that comes later replaces ours.
const bool filled = [] {
  auto& stub = at::native::_fused_sdp_choice_stub;
#ifdef OUTBOARD_CPU_STUBS  // else stubs cannot be asked
  if (stub.is_device_supported(at::kPrivateUse1)) return false;
#endif
  stub.set_privateuse1_dispatch_ptr(&at::native::_fused_sdp_choice_cpp);
  return true;
}();

}  // namespace

}  // namespace outboard::cpu_kernels
