// Memory of the operands that product tiles read: packed, or in place.
//
// Packing costs one read of an operand and a launch. Tiles then read memory in order. In place they
// jump from line to line, which costs little while the lines stay cached.
#pragma once

#include <cstdint>
#include <optional>

namespace outboard {

struct ProductLayout;

// Strides in elements, in the layout of the kernels: of batches, of panels (as high or wide as a
// tile), of the lines of a panel, and along K. The last panel begins `early` lines earlier.
struct TilePlaces {
  int64_t batch, panel, line, step, early;
};

struct TileSize {
  int64_t rows, columns;
};

// `lines` lines packed in panels of `panel`.
TilePlaces packed_places(int64_t depth, int64_t lines, int64_t panel);

// In place, on CPUs; nullopt if it must be packed or packing is faster. `bytes`: of an element.
std::optional<TilePlaces> left_in_place(const ProductLayout& layout, const TileSize& tile);
std::optional<TilePlaces> right_in_place(const ProductLayout& layout, const TileSize& tile,
                                         int64_t bytes);

}  // namespace outboard
