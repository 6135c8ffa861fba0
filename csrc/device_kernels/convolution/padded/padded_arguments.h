// Arguments of kernels in kernels/products/padded_convolution.cl and winograd_convolution.cl, in
// the layout of the kernels.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device_kernels/convolution/padded/padded_layout.h"

namespace outboard {

// Kernels use 32-bit indices; sizes stay below 2^31 when rounded up.
constexpr int64_t kLargestPaddedIndex = (int64_t{1} << 31) - 65536;

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline NarrowTriple narrow(const SpatialValues& values) {
  NarrowTriple result;
  std::transform(values.begin(), values.end(), result.begin(),
                 [](int64_t value) { return static_cast<int32_t>(value); });
  return result;
}

inline int32_t narrow(int64_t value) { return static_cast<int32_t>(value); }

struct PaddedSizes {
  NarrowTriple phases, grid;
  int32_t lead, plane;
};

struct Taps {
  NarrowTriple count, scale, offset, step, cycle;
};

struct Source {
  int32_t images, image, channel;
  NarrowTriple stride, size, scale, offset, step;
};

struct Weights {
  int32_t rows, channels, group, row, channel;
  NarrowTriple size, count, first, step;
};

struct Result {
  int32_t groups, rows, channels, count;
  NarrowTriple grid, extent;
  int32_t image, row, first;
  NarrowTriple stride;
};

inline Taps taps_of(const TapPattern& pattern) {
  return {narrow(pattern.count), narrow(pattern.scale), narrow(pattern.offset),
          narrow(pattern.step), narrow(pattern.cycle)};
}

}  // namespace outboard
