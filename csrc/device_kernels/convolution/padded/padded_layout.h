// Padded layout: images packed with zeros between rows, so that a kernel element (a tap) reads
// values at one distance from every position. Contains the geometry for
// kernels/products/padded_convolution.cl, and no programs or launches.
#pragma once

#include <array>
#include <cstdint>

#include "device_kernels/convolution/convolution_call.h"

namespace outboard {

using NarrowTriple = std::array<int32_t, 3>;

// The taps of a result, per dimension: tap i reads the index floor((scale * i + offset) / step)
// relative to the position, in phase i % cycle. It is the kernel element `first + i * each`.
struct TapPattern {
  SpatialValues count, scale, offset, step, cycle;
  SpatialValues first, each;

  int64_t taps() const { return count[0] * count[1] * count[2]; }
};

// Taps of gathered patches: one plane per tap; tap i reads the position's own index in phase i.
TapPattern gathered_taps(int64_t taps);

// Taps of an output position in the input.
TapPattern forward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel);

// Taps of the input positions `remainder + n * stride` in the output, for the data gradient. If
// there is no tap, `count` is 0 in some dimension.
TapPattern backward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel,
                         const SpatialValues& remainder);

// Sizes of the padded layout of a source, in elements.
class PaddedLayout {
 public:
  SpatialValues phases = {1, 1, 1};  // planes per channel
  SpatialValues grid = {1, 1, 1};    // positions of an image in a plane
  int64_t lead = 0;                  // zeros before the first position
  int64_t reach = 0;                 // farthest distance of a tap behind a position

  // Layout of gathered patches: a plane per tap, with positions of `extent` and no padding.
  static PaddedLayout of_taps(int64_t taps, const SpatialValues& extent);

  int64_t places() const { return grid[0] * grid[1] * grid[2]; }
  int64_t phase_count() const { return phases[0] * phases[1] * phases[2]; }
  // Elements per plane of `images` images, with trailing zeros for vectors of `width` positions.
  int64_t plane(int64_t images, int64_t width) const;

  // Adds padding for taps of `pattern` at positions of `extent`; `content`: positions of a phase of
  // the source.
  void make_room(const TapPattern& pattern, const SpatialValues& content,
                 const SpatialValues& extent);

 private:
  SpatialValues before_ = {}, behind_ = {};  // farthest taps from a position
};

}  // namespace outboard
