// Where tiles of a product read its operands: packed before, or in place.
//
// To pack makes one read of an operand and a launch more. Afterwards tiles read memory in order. In
// place they jump from line to line, which costs little while caches hold what they meet.
#pragma once

#include <cstdint>
#include <optional>

namespace outboard {

struct ProductLayout;

// Strides in elements, as kernels have them: of batches, of panels, which are a tile high or wide,
// of the lines of a panel, and along the depth. The last panel begins `early` lines earlier.
struct TilePlaces {
  int64_t batch, panel, line, step, early;
};

struct TileSize {
  int64_t rows, columns;
};

// Of `lines` lines that are packed in panels of `panel`.
TilePlaces packed_places(int64_t depth, int64_t lines, int64_t panel);

// In place, by a device of the kind CPU; nothing where it must be packed, or that is faster.
// Elements have `bytes` bytes.
std::optional<TilePlaces> left_in_place(const ProductLayout& layout, const TileSize& tile);
std::optional<TilePlaces> right_in_place(const ProductLayout& layout, const TileSize& tile,
                                         int64_t bytes);

}  // namespace outboard
