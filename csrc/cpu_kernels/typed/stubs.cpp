// CPU kernels in the slots for this backend of the stubs behind PyTorch's operators.
//
// A stub dispatches on the device type, and its kernel gets a TensorIterator: sizes, strides and
// pointers. The pointers are valid on a device that shares memory with the host. All devices have
// one slot, so each call checks its device. Slots that a vendor filled before stay the vendor's.
#ifdef OUTBOARD_CPU_STUBS

#include <ATen/TensorIterator.h>
#include <ATen/native/Activation.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Fill.h>
#include <ATen/native/Lerp.h>
#include <ATen/native/PointwiseOps.h>
#include <ATen/native/Pow.h>
#include <ATen/native/TensorCompare.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/native/IndexKernel.h>

#include <type_traits>

#include "runtime/driver/device.h"

namespace outboard::cpu_kernels {

namespace {

void check_shares_memory(const at::TensorIteratorBase& iterator) {
  const c10::Device device = iterator.device(0);
  if (C10_LIKELY(device.is_cpu() || shares_host_memory(device.index()))) return;
  TORCH_CHECK_NOT_IMPLEMENTED(
      false, "a CPU kernel was asked to run on ", device,
      ", whose memory the host cannot touch; call the operator through PyTorch's dispatcher, "
      "which copies, or register a kernel for this device");
}

template <class Function>
struct HostKernel;
template <class Return, class Iterator, class... Args>
struct HostKernel<Return (*)(Iterator&, Args...)> {
  template <auto& stub>
  static Return run(Iterator& iterator, Args... args) {
    check_shares_memory(iterator);
    return stub(at::kCPU, iterator, std::forward<Args>(args)...);
  }
};

template <auto& stub>
void fill_slot() {
  if (stub.is_device_supported(at::kPrivateUse1)) return;
  using Kernel = HostKernel<typename std::remove_reference_t<decltype(stub)>::FnPtr>;
  stub.set_privateuse1_dispatch_ptr(&Kernel::template run<stub>);
}

template <auto&... stubs>
bool fill_slots() {
  (fill_slot<stubs>(), ...);
  return true;
}

using namespace at::native;  // the names of the stubs

const bool filled = fill_slots<
    // binary
    add_stub, add_clamp_stub, atan2_stub, bitwise_and_stub, bitwise_or_stub, bitwise_xor_stub,
    copysign_stub, div_floor_stub, div_true_stub, div_trunc_stub, fmax_stub, fmin_stub, fmod_stub,
    gcd_stub, heaviside_stub, hypot_stub, lcm_stub, logaddexp2_stub, logaddexp_stub, lshift_stub,
    maximum_stub, minimum_stub, mul_stub, nextafter_stub, remainder_stub, rshift_stub, xlogy_stub,
    // comparison and choice
    clamp_max_scalar_stub, clamp_min_scalar_stub, clamp_scalar_stub, clamp_stub, eq_stub, ge_stub,
    gt_stub, isneginf_stub, isposinf_stub, le_stub, logical_and_stub, logical_not_stub,
    logical_or_stub, logical_xor_stub, lt_stub, ne_stub, where_kernel,
    // unary
    abs_stub, acos_stub, acosh_stub, angle_stub, asin_stub, asinh_stub, atan_stub, atanh_stub,
    bitwise_not_stub, ceil_stub, cos_stub, cosh_stub, digamma_stub, erf_stub, erfc_stub,
    erfinv_stub, exp2_stub, exp_stub, expm1_stub, floor_stub, frac_stub, i0_stub, lgamma_stub,
    log10_stub, log1p_stub, log2_stub, log_stub, neg_stub, reciprocal_stub, round_stub, rsqrt_stub,
    sgn_stub, sigmoid_stub, sign_stub, signbit_stub, sin_stub, sinc_stub, sinh_stub, sqrt_stub,
    tan_stub, tanh_stub, trunc_stub,
    // powers and three operands
    addcdiv_stub, addcmul_stub, lerp_kernel_scalar_weight, lerp_kernel_tensor_weight,
    pow_tensor_scalar_stub, pow_tensor_tensor_stub,
    // activations and losses
    elu_backward_stub, elu_stub, glu_stub, hardsigmoid_backward_stub, hardsigmoid_stub,
    hardshrink_stub, hardswish_backward_stub, hardswish_stub, hardtanh_backward_stub,
    leaky_relu_backward_stub, leaky_relu_stub, logit_backward_stub, mish_backward_stub, mish_stub,
    mse_backward_stub, mse_stub, GeluBackwardKernel, GeluKernel, shrink_backward_stub,
    sigmoid_backward_stub, silu_backward_stub, silu_stub, smooth_l1_backward_stub, smooth_l1_stub,
    softplus_backward_stub, softplus_stub, softshrink_stub, tanh_backward_stub, threshold_stub,
    // filling
    fill_stub, masked_fill_stub>();

}  // namespace

}  // namespace outboard::cpu_kernels

#endif  // OUTBOARD_CPU_STUBS
