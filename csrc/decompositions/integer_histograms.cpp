// `histc` of integers, as a decomposition. PyTorch has it on accelerators and not on CPU; programs
// use it to count the tokens of each expert of a mixture.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>

#include <limits>
#include <utility>

#include "dispatch/registration.h"
#include "dispatch/router.h"

namespace outboard {
namespace {

constexpr c10::ScalarType kIntegers[] = {at::kByte, at::kChar, at::kShort, at::kInt, at::kLong};

at::Tensor count_integers(const at::Tensor& self, int64_t bins, const at::Scalar& min,
                          const at::Scalar& max) {
  TORCH_CHECK(bins > 0, "torch.histc: bins must be > 0, but got ", bins);
  int64_t low = min.toLong();
  int64_t high = max.toLong();
  const at::Tensor values = self.reshape({-1}).to(at::kLong);
  if (low == high && values.numel() > 0) {
    low = values.min().item().toLong();
    high = values.max().item().toLong();
  }
  if (low == high) {
    if (low > std::numeric_limits<int64_t>::min()) --low;
    if (high < std::numeric_limits<int64_t>::max()) ++high;
  }
  TORCH_CHECK(low < high, "torch.histc: max must be larger than min, but they are ", high, " and ",
              low);
  int64_t range = 0;
  int64_t largest = 0;
  TORCH_CHECK(
      !__builtin_sub_overflow(high, low, &range) && !__builtin_mul_overflow(range, bins, &largest),
      "torch.histc: ", bins, " bins between ", low, " and ", high,
      " are too many for 64-bit integers; pass floating point");
  const at::Tensor inside = at::logical_and(values.ge(low), values.le(high));
  const at::Tensor distances = at::where(inside, values, low).sub(low);
  const at::Tensor bin = distances.mul(bins).div(range, "trunc").clamp_max(bins - 1);
  return at::zeros({bins}, values.options())
      .scatter_add_(0, bin, inside.to(at::kLong))
      .to(self.scalar_type());
}

at::Tensor& count_integers_out(const at::Tensor& self, int64_t bins, const at::Scalar& min,
                               const at::Scalar& max, at::Tensor& out) {
  const at::Tensor counts = count_integers(self, bins, min, max);
  TORCH_CHECK(c10::canCast(counts.scalar_type(), out.scalar_type()), "result type ",
              counts.scalar_type(), " can't be cast to the desired output type ",
              out.scalar_type());
  at::native::resize_output(out, counts.sizes());
  return out.copy_(counts);
}

void add(const char* name, c10::KernelFunction function) {
  RoutedKernel kernel;
  kernel.kernel = std::move(function);
  kernel.placement = Placement::kHost;
  kernel.dtypes = 0;
  for (const c10::ScalarType dtype : kIntegers) {
    kernel.dtypes |= uint64_t{1} << static_cast<int>(dtype);
  }
  add_kernel_to_entry(router_entry(name), std::move(kernel));
}

}  // namespace

void register_integer_histograms() {
  add("aten::histc", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(count_integers)));
  add("aten::histc.out",
      c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(count_integers_out)));
}

}  // namespace outboard
