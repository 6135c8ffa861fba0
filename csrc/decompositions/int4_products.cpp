// Products with weights of four bits, as decompositions: PyTorch has them on accelerators, and
// under other names on CPU. Packed weights have PyTorch's shape; their order in it is a device's
// own, and here it is that of the rows.
#include <ATen/core/Tensor.h>
#include <ATen/ops/stack.h>

#include "dispatch/router.h"

namespace outboard {
namespace {

// From [n][k / 2] bytes, the first of two weights in the upper half, to
// [n / 8][k / (16 * inner_k_tiles)][32][inner_k_tiles / 2] integers.
at::Tensor pack(const at::Tensor& self, int64_t inner_k_tiles) {
  TORCH_CHECK(self.dim() == 2 && self.scalar_type() == at::kByte,
              "_convert_weight_to_int4pack takes a matrix of uint8, not ", self.scalar_type(),
              " of ", self.dim(), " dimensions");
  TORCH_CHECK(inner_k_tiles == 2 || inner_k_tiles == 4 || inner_k_tiles == 8,
              "_convert_weight_to_int4pack: innerKTiles is 2, 4 or 8, not ", inner_k_tiles);
  const int64_t n = self.size(0), k = self.size(1) * 2, tile = inner_k_tiles * 16;
  TORCH_CHECK(n % 8 == 0 && k % tile == 0, "_convert_weight_to_int4pack: ", n, " by ", k,
              " weights are no multiple of 8 by ", tile, "; pad them");
  return self.contiguous().view(at::kInt).view({n / 8, k / tile, 32, inner_k_tiles / 2}).clone();
}

// self @ ((weights - 8) * scale + zero).T, with both by [k / group][n][scale, zero].
at::Tensor product(const at::Tensor& self, const at::Tensor& mat2, int64_t group,
                   const at::Tensor& scale_and_zero) {
  TORCH_CHECK(self.dim() == 2 && self.is_floating_point(),
              "_weight_int4pack_mm takes a matrix of floating point, not ", self.scalar_type(),
              " of ", self.dim(), " dimensions");
  TORCH_CHECK(mat2.dim() == 4 && mat2.scalar_type() == at::kInt,
              "_weight_int4pack_mm takes weights of _convert_weight_to_int4pack, not ",
              mat2.scalar_type(), " of ", mat2.dim(), " dimensions");
  const int64_t n = mat2.size(0) * 8, k = self.size(1);
  TORCH_CHECK(mat2.numel() * 8 == n * k, "_weight_int4pack_mm: rows of ", k,
              " elements were given for ", mat2.numel() * 8 / n,
              " weights per column; pass rows of that length");
  TORCH_CHECK(
      group > 0 && k % group == 0 && scale_and_zero.sizes() == at::IntArrayRef({k / group, n, 2}),
      "_weight_int4pack_mm: groups of ", group, " need scales and zeros of [", k, " / group, ", n,
      ", 2], not of ", scale_and_zero.sizes());
  const at::Tensor packed = mat2.contiguous().view(at::kByte).view({n, k / 2});
  const at::Tensor weights = at::stack({packed.bitwise_right_shift(4), packed.bitwise_and(15)}, -1)
                                 .view({n, k / group, group});
  // [n][k / group][1]
  const auto by_row = [&](int64_t which) {
    return scale_and_zero.select(-1, which).to(self.scalar_type()).t().unsqueeze(-1);
  };
  return self.matmul(
      weights.to(self.scalar_type()).sub(8).mul(by_row(0)).add(by_row(1)).view({n, k}).t());
}

OUTBOARD_ROUTED("_convert_weight_to_int4pack", pack)
OUTBOARD_ROUTED("_weight_int4pack_mm", product)

}  // namespace
}  // namespace outboard
