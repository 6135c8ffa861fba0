// The kernels of torch_outboard/kernels/products/matrix_product.cl for one dtype on one device:
// packing, products in register tiles, and products too small for packing.
//
// Kernel generators that end in a matrix product pass operands as strides, or pack one by their own
// kernel in the same program.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "device_kernels/kernel_table.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/work_shape.h"
#include "runtime/export.h"
#include "runtime/programs/launch.h"
#include "tensors/dense.h"

namespace outboard {

// Strides in elements. K runs along `row` of the right operand and `column` of the left one.
// `outer` belongs to two-level indices: see ProductLayout.
struct ProductStrides {
  int64_t batch = 0;
  int64_t row = 0;
  int64_t column = 0;
  int64_t outer = 0;
};

// out = alpha * left @ right + beta * added. Index i along K of the operands has the offset i /
// inner_depth * outer + i % inner_depth * stride; the same for columns of out and added. With
// inner_depth == depth, inner_columns == columns there is one level. Fields are in the order of the
// kernels.
struct ProductLayout {
  int64_t batches = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t depth = 1;
  int64_t inner_depth = 1;
  int64_t inner_columns = 1;
  ProductStrides left, right, out, added;
};

struct ProductScalars {
  at::Scalar alpha = 1;
  at::Scalar beta = 0;
  bool adds = false;  // true if `added` is read
};

// Memory of a product; `added` is read if `ProductScalars::adds`.
struct ProductAddresses {
  const void *left, *right;
  void* out;
  const void* added;
};

// Strides of an operand of tiles, in elements and in the layout of the kernels: of batches, of
// panels (as high or wide as a tile), of the lines of a panel, and along K. The last panel begins
// `early` lines earlier.
struct TileStrides {
  int64_t batch, panel, line, step, early;
};

// An operand of tiles, packed or in place. Packing costs one read and a launch; tiles then read
// memory in order. In place they jump from line to line, which costs little while the lines stay
// cached. Packed memory may be freed as soon as work is enqueued.
struct TileOperand {
  const void* address;
  TileStrides strides;
  at::Tensor packed;
};

// Tile sizes.
struct ProductBlocks {
  int rows;     // of a tile
  int vectors;  // of a tile, side by side
  int panels;   // tiles of a work-item, one below the other
};

class OUTBOARD_API ProductProgram {
 public:
  // `wide`: 64-bit indices; `patches`: with the kernels of convolutions. Never destroyed.
  static const ProductProgram& find(c10::DeviceIndex device, at::ScalarType dtype, bool wide,
                                    bool patches = false);

  int tile_columns() const noexcept { return columns_; }
  // Columns packed at a time, so that they stay in a cache.
  int64_t columns_at_a_time(const ProductLayout& layout) const;

  // Operands of tiles, packed or in place.
  TileOperand left_operand(const ProductLayout& layout, const void* left) const;
  TileOperand right_operand(const ProductLayout& layout, const void* right) const;
  // The first `columns` columns of a right operand, packed by a kernel.
  TileOperand packed_right(const at::Tensor& packed, int64_t depth, int64_t columns) const;
  // Columns [begin, begin + count); `right` contains only those.
  void multiply(const ProductLayout& layout, const ProductScalars& scalars, const TileOperand& left,
                const TileOperand& right, void* out, const void* added, int64_t begin,
                int64_t count) const;

  // Products without packing: `multiply_rows` if columns of `right` are adjacent in memory,
  // `multiply_single` for any strides, `multiply_slices` for one long row and one column.
  void multiply_rows(const ProductLayout& layout, const ProductScalars& scalars,
                     const ProductAddresses& addresses) const;
  void multiply_single(const ProductLayout& layout, const ProductScalars& scalars,
                       const ProductAddresses& addresses) const;
  void multiply_slices(const ProductLayout& layout, const ProductAddresses& addresses) const;

  at::Tensor workspace(int64_t elements) const { return empty_on(device_, {elements}, value_); }
  int64_t slices(int64_t depth) const { return divide_up(depth, portions_.slice); }
  template <class Layout>
  void add_layout(LaunchArguments& arguments, const Layout& layout) const {
    outboard::add_layout(arguments, layout, wide_);
  }
  // Launches work-items with much work each (`coarse`) or little; adds their number, the last
  // argument of every kernel.
  void enqueue(const char* kernel, int64_t items, bool coarse, LaunchArguments& arguments) const;

 private:
  // Packs `lines` rows of the left operand or columns of the right one, in panels of `panel`.
  at::Tensor pack(const char* kernel, const ProductLayout& layout, int64_t lines, int64_t panel,
                  const void* operand) const;
  ProductProgram(c10::DeviceIndex device, at::ScalarType dtype, bool wide, bool patches);
  void add_operands(LaunchArguments& arguments, const ProductLayout& layout,
                    const ProductScalars& scalars, const ProductAddresses& addresses) const;

  // Work per launch.
  struct Portions {
    int slice;             // K packed by a work-item
    int local;             // work-group size of coarse work
    int64_t packed_bytes;  // of the right operand at a time
  };
  static Portions portions(c10::DeviceIndex device);

  const c10::DeviceIndex device_;
  const at::ScalarType value_;  // of sums and of packed operands: at least 32 bits wide
  const bool in_place_;         // tiles may read operands that are not packed
  const bool wide_;
  const Portions portions_;
  const ProductBlocks blocks_;
  const int width_;
  const int columns_;  // of a tile
  ProgramKernels kernels_;
};

// A #define line.
std::string define(const char* name, int64_t number);

// The source of `kernels` (torch_outboard/ops/sources/products.py), and `macros`.
std::string product_source(at::ScalarType dtype, at::ScalarType compute, int width, bool wide,
                           const std::string& macros, const char* kernels);

// The dtype of sums of products.
at::ScalarType product_value_dtype(at::ScalarType dtype);

// True if a product with these strides needs 64-bit indices.
OUTBOARD_API bool needs_wide_index(const ProductLayout& layout);

}  // namespace outboard
