// The kernels of group_tiles.cl, thin_products.cl and matrix_unit_tiles.cl in
// torch_outboard/kernels/products for one dtype on one device: products with tiles shared by
// work-groups, on GPUs. Operands are read in place.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "device_kernels/product/product_program.h"
#include "runtime/export.h"

namespace outboard {

// A dimension of a product that is made of an image, in the layout of the kernels. An index along
// it has four digits: a channel or an image of a batch, and three coordinates of positions or
// kernel elements. The first digit varies slowest or fastest.
struct ImageAxes {
  std::array<int64_t, 4> size;
  std::array<int64_t, 4> other;  // strides in the left operand or the result
  int64_t image;                 // stride of the first digit in the image
  std::array<int64_t, 3> step,
      shift;        // of the other digits: added to an image coordinate
  int64_t fastest;  // 1 if the first digit varies fastest
};

// A right operand made of patches of an image.
struct ImageOperand {
  ImageAxes depth, columns;
  std::array<int64_t, 3> size, stride;  // of the image
};

class OUTBOARD_API GroupTiles {
 public:
  // Access of adjacent work-items to an operand: along K with kAlongDepth, else along lines (rows
  // of the left operand, columns of the right one). kVectors: 16-bit elements can be read eight at
  // once.
  static constexpr int64_t kAlongDepth = 1, kVectors = 2;
  struct Access {
    int64_t left, right;
  };

  // A tile of the result, computed by a work-group of `items`. `registers`: per work-item;
  // `at_once`: resident work-groups per compute unit; `speed`: in percent of the fastest tile;
  // `definitions`: macros.
  struct Tile {
    int rows, columns, items;
    int registers, at_once, speed;
    std::string definitions;
  };

  // `wide`: 64-bit indices. Never destroyed. nullptr if the device's work-groups cannot share a
  // tile.
  static const GroupTiles* find(c10::DeviceIndex device, at::ScalarType dtype, bool wide);

  // Products with one level of indices. `multiply_thin` suits results of a few columns.
  void multiply_thin(const ProductLayout& layout, const ProductScalars& scalars,
                     const ProductAddresses& addresses) const;
  void multiply(const ProductLayout& layout, const ProductScalars& scalars,
                const ProductAddresses& addresses) const;
  // A product with an image as the right operand. The layout's strides along K and along columns
  // are ignored, except those of `added`.
  void convolve(const ProductLayout& layout, const ImageOperand& image, const Access& access,
                const ProductScalars& scalars, const ProductAddresses& addresses) const;

  // `units`: the device has matrix instructions for this dtype; otherwise `side` x `side`
  // work-items share a tile. Use `find` for cached programs.
  GroupTiles(c10::DeviceIndex device, at::ScalarType dtype, bool wide, int side, bool units);

 private:
  // A tile, and the split of K into parts.
  struct Plan {
    const Tile& tile;
    int64_t parts, part;
  };
  struct Work {
    const ProductLayout& layout;
    const ImageOperand* image;
    const Access& access;
    const ProductScalars& scalars;
    const ProductAddresses& addresses;
  };

  int64_t tiles_of(const ProductLayout& layout, const Tile& tile) const;
  Access access_of(const ProductLayout& layout, const ProductAddresses& addresses) const;
  Plan plan(const ProductLayout& layout) const;
  const ProgramKernels& kernels(const Tile& tile, const Work& work) const;
  // By tiles. For results that fill no tile: by `groups` groups along K for each part of it; of an
  // image, by work-items with a row each.
  void enqueue_tiles(const Work& work) const;
  void enqueue_few(const Work& work, int64_t groups) const;
  void enqueue_rows(const Work& work) const;
  // Launches `groups` groups of `local` work-items for each part of K, then the sum of the parts.
  void enqueue_parts(const Work& work, const char* kernel, const Plan& plan, int64_t groups,
                     int64_t local) const;
  void enqueue(const Work& work, const char* kernel, const Plan& plan, const void* partials,
               int64_t count, int64_t local, int64_t items) const;
  // Vectors of the result.
  int64_t vectors(const ProductLayout& layout) const;

  const c10::DeviceIndex device_;
  const at::ScalarType dtype_, value_;
  const bool wide_;
  const int side_;
  const bool units_;
  const int width_;
  const int64_t compute_units_;
  std::vector<Tile> tiles_;  // from large to small
};

// True if products of this dtype use matrix units: the device declares them and computes a small
// product correctly. Otherwise the first call warns.
bool uses_matrix_units(c10::DeviceIndex device, at::ScalarType dtype);

}  // namespace outboard
