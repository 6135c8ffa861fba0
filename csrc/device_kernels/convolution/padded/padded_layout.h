// Padded layout: images packed with zeros between rows, so that the value that an element of a
// kernel (a tap) multiplies lies at one distance from every position. What
// kernels/products/padded_convolution.cl needs to know of a convolution, and nothing about programs
// and launches.
#pragma once

#include <array>
#include <cstdint>

#include "device_kernels/convolution/convolution_call.h"

namespace outboard {

using NarrowTriple = std::array<int32_t, 3>;

// The taps that results meet, dimension by dimension: tap i meets place
// floor((scale * i + offset) / step) from its position, in phase i % cycle. Among the taps of the
// kernel these are `first + i * each`.
struct TapPattern {
  SpatialValues count, scale, offset, step, cycle;
  SpatialValues first, each;

  int64_t taps() const { return count[0] * count[1] * count[2]; }
};

// A plane for each tap, one behind the other: tap i meets each position's own place in phase i.
TapPattern gathered_taps(int64_t taps);

// What the output of a convolution reads of its input.
TapPattern forward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel);

// What the places `remainder + n * stride` of the input of a convolution read of its output, as its
// gradient. No tap at all has a count of 0 in some dimension.
TapPattern backward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel,
                         const SpatialValues& remainder);

// Sizes of a source in the padded layout, in elements.
class PaddedLayout {
 public:
  SpatialValues phases = {1, 1, 1};  // planes of a channel
  SpatialValues grid = {1, 1, 1};    // places of an image in a plane
  int64_t lead = 0;                  // zeros before the first place
  int64_t reach = 0;                 // how far taps go beyond a position

  // A plane for each tap, of positions of `extent` without any between them.
  static PaddedLayout of_taps(int64_t taps, const SpatialValues& extent);

  int64_t places() const { return grid[0] * grid[1] * grid[2]; }
  int64_t phase_count() const { return phases[0] * phases[1] * phases[2]; }
  // Of `images` images, with zeros behind them for vectors that begin at a position: `width`
  // positions are read at a time.
  int64_t plane(int64_t images, int64_t width) const;

  // Makes room for what taps of `pattern` read from positions of `extent`; `content` is how many
  // places a phase of the source has.
  void make_room(const TapPattern& pattern, const SpatialValues& content,
                 const SpatialValues& extent);

 private:
  SpatialValues before_ = {}, behind_ = {};  // the farthest that taps go from a position
};

}  // namespace outboard
