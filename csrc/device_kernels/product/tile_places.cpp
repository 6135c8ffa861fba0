#include "device_kernels/product/tile_places.h"

#include "device_kernels/product/product_program.h"

namespace outboard {
namespace {

// Left operand: each tile reads a few elements at each step along K. If its rows are dense, these
// are sequential streams: packing pays only for many columns. Otherwise each step reads another
// cache line: packing pays if panels of columns after the first read many elements again, or if a
// cache cannot hold the lines of a panel of rows.
constexpr int64_t kColumns = 1024;
constexpr int64_t kReadAgain = 3 << 18;
constexpr int64_t kLeftSteps = 1024;

// Right operand: each step reads another cache line. Up to kFewPanels panels of rows read it no
// more often than packing would. More panels need it in the L2 cache. Many panels also need steps
// shorter than a page, because lines that are pages apart share cache sets, and few steps.
constexpr int64_t kFewPanels = 2;
constexpr int64_t kManyPanels = 8;
constexpr int64_t kCachedBytes = int64_t{1} << 20;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kRightSteps = 512;

int64_t panels_of(int64_t lines, int64_t panel) { return (lines + panel - 1) / panel; }

// Panels of lines with stride `line`; there are at least as many lines as in a panel.
TilePlaces places(int64_t batch, int64_t lines, int64_t panel, int64_t line, int64_t step) {
  return {batch, panel * line, line, step, panels_of(lines, panel) * panel - lines};
}

}  // namespace

TilePlaces packed_places(int64_t depth, int64_t lines, int64_t panel) {
  return {panels_of(lines, panel) * panel * depth, panel * depth, 1, panel, 0};
}

std::optional<TilePlaces> left_in_place(const ProductLayout& layout, const TileSize& tile) {
  const ProductStrides& left = layout.left;
  if (layout.inner_depth < layout.depth || layout.rows < tile.rows) return std::nullopt;
  const int64_t again = (panels_of(layout.columns, tile.columns) - 1) * layout.rows * layout.depth;
  const bool dense = left.column <= 1;
  if (dense ? layout.columns > kColumns && again > kReadAgain
            : again > kReadAgain || (again > 0 && layout.depth > kLeftSteps)) {
    return std::nullopt;
  }
  return places(left.batch, layout.rows, tile.rows, left.row, left.column);
}

std::optional<TilePlaces> right_in_place(const ProductLayout& layout, const TileSize& tile,
                                         int64_t bytes) {
  const ProductStrides& right = layout.right;
  if (layout.inner_depth < layout.depth || layout.columns < tile.columns || right.column != 1) {
    return std::nullopt;
  }
  const int64_t panels = panels_of(layout.rows, tile.rows);
  const int64_t step = right.row * bytes;
  if (panels > kFewPanels && layout.depth * step > kCachedBytes) return std::nullopt;
  if (panels > kManyPanels && (step >= kPageBytes || layout.depth > kRightSteps)) {
    return std::nullopt;
  }
  return places(right.batch, layout.columns, tile.columns, 1, right.row);
}

}  // namespace outboard
