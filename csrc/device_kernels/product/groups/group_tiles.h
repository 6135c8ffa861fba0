// The kernels of group_tiles.cl, thin_products.cl and matrix_unit_tiles.cl in
// torch_outboard/kernels/products for one dtype on one device: products whose tiles groups of work
// items share, on GPUs. Operands are read where they lie.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device_kernels/product/product_program.h"
#include "runtime/export.h"
#include "runtime/programs/launch.h"

namespace outboard {

// How a dimension of a product is made of an image, as kernels have it: a number along it has a
// digit for a channel or an image of a batch, and three that count positions or elements of a
// kernel. The first one varies slowest, or fastest.
struct ImageAxes {
  std::array<int32_t, 4> size;
  std::array<int32_t, 4> other;  // strides of the left operand, or of the result
  int32_t image;                 // stride of the first digit in the image
  std::array<int32_t, 3> step,
      shift;        // of the others: what they add to a coordinate in the image
  int32_t fastest;  // whether the first digit varies fastest
};

// The right operand of a product that is made of patches of an image.
struct ImageOperand {
  ImageAxes depth, columns;
  std::array<int32_t, 3> size, stride;  // of the image
};

class OUTBOARD_API GroupTiles {
 public:
  struct Addresses {
    const void *left, *right;
    void* out;
    const void* added;
  };
  // How work items that are neighbours read an operand: neighbours along the depth, or without that
  // flag lines, which are rows of the left operand and columns of the right one. With the second
  // flag, items that read elements of 16 bits can read eight at once.
  static constexpr int64_t kAlongDepth = 1, kVectors = 2;
  struct Ways {
    int64_t left, right;
  };

  // A tile of the result, which a group of so many work-items computes. They have so many
  // registers, and so many groups run at once on a compute unit. `speed` is that of products by
  // such tiles, in hundredths of the fastest tile's. `definitions` are macros.
  struct Tile {
    int rows, columns, items;
    int registers, at_once, speed;
    std::string definitions;
  };

  // The kernels of `text`, which ProductProgram::keep returned; `wide` for indices of 64 bits. They
  // live for ever. nullptr for a device whose work items have no groups that could share a tile.
  static const GroupTiles* find(c10::DeviceIndex device, at::ScalarType dtype, bool wide,
                                const std::string& text);

  // A product of one level of indices. `multiply_thin` suits results of a few columns.
  void multiply_thin(const ProductLayout& layout, const ProductScalars& scalars,
                     const Addresses& addresses) const;
  void multiply(const ProductLayout& layout, const ProductScalars& scalars,
                const Addresses& addresses) const;
  // With an image as the right operand. Of the layout, strides along the depth and along columns do
  // not count, but that of what is added.
  void convolve(const ProductLayout& layout, const ImageOperand& image, const Ways& ways,
                const ProductScalars& scalars, const Addresses& addresses) const;

  // `units`: whether the device has instructions for products of this dtype. Others share a tile
  // among `side` times `side` work-items. For programs that are found, use `find`.
  GroupTiles(c10::DeviceIndex device, at::ScalarType dtype, bool wide, int side, bool units,
             const std::string& text);

 private:
  // A tile, and the parts into which the depth is cut.
  struct Plan {
    const Tile& tile;
    int64_t parts, part;
  };
  // For results that fill no tile there are a kernel that goes along the depth by groups, and
  // for an image one that has a row by single items.
  struct Kernels {
    Kernel* tiles;
    Kernel* add_parts;
    Kernel* few_results;
    Kernel* single_rows;
  };
  struct Work {
    const ProductLayout& layout;
    const ImageOperand* image;
    const Ways& ways;
    const ProductScalars& scalars;
    const Addresses& addresses;
  };

  int64_t tiles_of(const ProductLayout& layout, const Tile& tile) const;
  Ways ways_of(const ProductLayout& layout, const Addresses& addresses) const;
  Plan plan(const ProductLayout& layout) const;
  const Kernels& kernels(const Tile& tile, const Work& work) const;
  void add_indices(LaunchArguments& arguments, const int64_t* values, size_t count) const;
  // By tiles; by groups that go along the depth, of which each part of it takes so many; by items
  // that have rows.
  void enqueue_tiles(const Work& work) const;
  void enqueue_few(const Work& work, int64_t groups) const;
  void enqueue_rows(const Work& work) const;
  // `kernel` by so many groups of `local` work-items for each part of the depth, then what adds up
  // the parts.
  void enqueue_parts(const Work& work, const Kernels& made, Kernel& kernel, const Plan& plan,
                     int64_t groups, int64_t local) const;
  void enqueue(const Work& work, Kernel& kernel, const Plan& plan, const void* partials,
               int64_t count, int64_t local, int64_t items) const;
  int64_t vectors(const ProductLayout& layout) const;

  const c10::DeviceIndex device_;
  const at::ScalarType dtype_, value_;
  const bool wide_;
  const int side_;
  const bool units_;
  const int width_;
  const int64_t compute_units_;
  const std::string& text_;
  std::vector<Tile> tiles_;  // from large to small
};

}  // namespace outboard
