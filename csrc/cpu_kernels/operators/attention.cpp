// Which attention kernel scaled_dot_product_attention takes: the one the CPU would. The kernels
// themselves (_scaled_dot_product_flash_attention_for_cpu and its backward) come through the
// router. The CPU's choice is an ordinary function, so it can be had without calling a stub.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_native.h>

namespace outboard::cpu_kernels {

namespace {

const bool filled = [] {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(
      &at::native::_fused_sdp_choice_cpp);
  return true;
}();

}  // namespace

}  // namespace outboard::cpu_kernels
