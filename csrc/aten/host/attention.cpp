// Which attention kernel scaled_dot_product_attention takes: the one the CPU would. The kernels
// themselves (_scaled_dot_product_flash_attention_for_cpu and its backward) come through the
// router.
#ifdef OUTBOARD_CPU_STUBS

#include <ATen/native/transformers/attention.h>

namespace outboard::host {

namespace {

template <class Function>
struct Choice;
template <class... Args>
struct Choice<int64_t (*)(Args...)> {
  static int64_t as_on_cpu(Args... args) {
    return at::native::_fused_sdp_choice_stub(at::kCPU, std::forward<Args>(args)...);
  }
};

const bool filled = [] {
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(
      &Choice<at::native::fused_sdp_choice_fn>::as_on_cpu);
  return true;
}();

}  // namespace

}  // namespace outboard::host

#endif  // OUTBOARD_CPU_STUBS
