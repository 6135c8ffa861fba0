// Convolution.
//
// `convolution` and `convolution_backward` are composites that choose a backend by device. For this
// one they choose the overrideable operators, which have no CPU kernel; run as a whole on the host
// (kCompositesOnHost), they choose the CPU's. Autograd is above them, double backward included.
// `_convolution` and programs may call the overrideable operators.
#include <ATen/TracerMode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/convolution_native.h>

#include "cpu_kernels/typed/typed_kernel.h"

namespace outboard::cpu_kernels {

namespace {

at::Tensor convolution(const at::Tensor& input, const at::Tensor& weight,
                       const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                       at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef output_padding, int64_t groups) {
  if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled())) {
    // torch.jit.trace records the calls of PyTorch's composite instead of this one.
    return at::native::convolution(input, weight, bias, stride, padding, dilation, transposed,
                                   output_padding, groups);
  }
  return TypedOverload<"convolution">::routed<at::Tensor>(
      input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
}

at::Tensor convolution_overrideable(const at::Tensor& input, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                                    at::IntArrayRef padding, at::IntArrayRef dilation,
                                    bool transposed, at::IntArrayRef output_padding,
                                    int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding,
                         groups);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef output_padding, int64_t groups, std::array<bool, 3> output_mask) {
  const int64_t channels = weight.dim() == 0 ? 0 : weight.size(transposed ? 1 : 0);
  const std::array<int64_t, 1> bias_sizes = {transposed ? channels * groups : channels};
  return at::convolution_backward(grad_output, input, weight, at::IntArrayRef(bias_sizes), stride,
                                  padding, dilation, transposed, output_padding, groups,
                                  output_mask);
}

}  // namespace

OUTBOARD_DIRECT("convolution", convolution)
OUTBOARD_ROUTED("convolution_overrideable", convolution_overrideable)
OUTBOARD_ROUTED("convolution_backward_overrideable", convolution_backward_overrideable)

}  // namespace outboard::cpu_kernels
