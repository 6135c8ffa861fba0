#include "device_kernels/convolution/padded/padded_layout.h"

#include <algorithm>
#include <numeric>

namespace outboard {
namespace {

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Elements of a cache line. Planes have an odd number of lines: powers of 2 share cache sets.
constexpr int64_t kLine = 16;

}  // namespace

TapPattern gathered_taps(int64_t taps) {
  TapPattern pattern = {};
  pattern.count = pattern.cycle = {1, 1, taps};
  pattern.step = {1, 1, 1};
  return pattern;
}

TapPattern forward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel) {
  TapPattern pattern = {};
  for (int d = 0; d < 3; ++d) {
    pattern.count[d] = kernel[d];
    pattern.scale[d] = geometry.dilation[d];
    pattern.offset[d] = -geometry.padding[d];
    pattern.step[d] = geometry.stride[d];
    pattern.cycle[d] = geometry.stride[d] / std::gcd(geometry.stride[d], geometry.dilation[d]);
    pattern.each[d] = 1;
  }
  return pattern;
}

TapPattern backward_taps(const ConvolutionGeometry& geometry, const SpatialValues& kernel,
                         const SpatialValues& remainder) {
  TapPattern pattern = {};
  for (int d = 0; d < 3; ++d) {
    const int64_t stride = geometry.stride[d], dilation = geometry.dilation[d];
    const int64_t reached = remainder[d] + geometry.padding[d];
    pattern.step[d] = pattern.cycle[d] = 1;
    pattern.each[d] = stride / std::gcd(stride, dilation);
    const int64_t last = std::min(pattern.each[d], kernel[d]);
    while (pattern.first[d] < last && (reached - pattern.first[d] * dilation) % stride != 0) {
      ++pattern.first[d];
    }
    if (pattern.first[d] == last) continue;
    pattern.count[d] = (kernel[d] - 1 - pattern.first[d]) / pattern.each[d] + 1;
    pattern.scale[d] = -(pattern.each[d] * dilation / stride);
    pattern.offset[d] = (reached - pattern.first[d] * dilation) / stride;
  }
  return pattern;
}

PaddedLayout PaddedLayout::of_taps(int64_t taps, const SpatialValues& extent) {
  PaddedLayout layout;
  layout.phases = {1, 1, taps};
  layout.grid = extent;
  layout.reach = kLine;  // the last vector of a row reads beyond it
  return layout;
}

int64_t PaddedLayout::plane(int64_t images, int64_t width) const {
  const int64_t positions = (images * places() + width - 1) / width * width;
  const int64_t lines = (lead + positions + reach + kLine - 1) / kLine;
  return (lines | 1) * kLine;
}

void PaddedLayout::make_room(const TapPattern& pattern, const SpatialValues& content,
                             const SpatialValues& extent) {
  for (int d = 0; d < 3; ++d) {
    grid[d] = std::max({grid[d], content[d], extent[d]});
  }
  if (pattern.taps() == 0) return;
  for (int d = 0; d < 3; ++d) {
    const int64_t last = pattern.count[d] - 1;
    const int64_t one = floor_divide(pattern.offset[d], pattern.step[d]);
    const int64_t other =
        floor_divide(pattern.scale[d] * last + pattern.offset[d], pattern.step[d]);
    const int64_t before = std::max<int64_t>(0, -std::min(one, other));
    const int64_t behind = std::max<int64_t>(0, std::max(one, other));
    phases[d] = std::max(phases[d], std::min(pattern.count[d], pattern.cycle[d]));
    // The zeros after a row are also the zeros before the next one.
    grid[d] = std::max({grid[d], content[d] + before, extent[d] + behind});
    before_[d] = std::max(before_[d], before);
    behind_[d] = std::max(behind_[d], behind);
  }
  const auto distance = [&](const SpatialValues& by) {
    return (by[0] * grid[1] + by[1]) * grid[2] + by[2];
  };
  lead = distance(before_);
  reach = distance(behind_);
}

}  // namespace outboard
