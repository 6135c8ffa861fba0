// Convolutions of images in a padded layout: sizes, and the kernels of
// torch_outboard/kernels/products/padded_convolution.cl for one dtype on one device.
//
// Padded layout: images packed with zeros between rows, so that a kernel element (a tap) reads
// values at one distance from every position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/work_shape.h"
#include "runtime/programs/launch.h"

namespace outboard {

// Sizes stay below 2^31 when rounded up.
constexpr int64_t kLargestPaddedIndex = (int64_t{1} << 31) - 65536;

// Sizes of the padded layout of a source, in elements.
class PaddedLayout {
 public:
  SpatialValues phases = {1, 1, 1};  // planes per channel
  SpatialValues grid = {1, 1, 1};    // positions of an image in a plane
  int64_t lead = 0;                  // zeros before the first position
  int64_t reach = 0;                 // farthest distance of a tap behind a position

  // Layout of gathered patches: a plane per tap, with positions of `extent` and no padding.
  static PaddedLayout of_taps(int64_t taps, const SpatialValues& extent);

  int64_t positions() const { return volume(grid); }
  int64_t phase_count() const { return volume(phases); }
  // Elements per plane of `images` images, with trailing zeros for vectors of `width` positions.
  int64_t plane(int64_t images, int64_t width) const;

  // Adds padding for taps of `pattern` at positions of `extent`; `content`: positions of a phase of
  // the source.
  void make_room(const TapPattern& pattern, const SpatialValues& content,
                 const SpatialValues& extent);

 private:
  SpatialValues before_ = {}, behind_ = {};  // farthest taps from a position
};

// Arguments in the layout of the kernels.
struct PaddedSizes {
  NarrowTriple phases, grid;
  int32_t lead, plane;
};

struct PaddedTaps {
  NarrowTriple count, scale, offset, step, cycle;
};

struct PaddedSource {
  int32_t images, image, channel;
  NarrowTriple stride, size, scale, offset, step;
};

struct PaddedWeights {
  int32_t rows, channels, group, row, channel;
  NarrowTriple size, count, first, step;
};

struct PaddedResult {
  int32_t groups, rows, channels, count;
  NarrowTriple grid, extent;
  int32_t image, row, first;
  NarrowTriple stride;
};

inline PaddedTaps taps_of(const TapPattern& pattern) {
  return {narrow(pattern.count), narrow(pattern.scale), narrow(pattern.offset),
          narrow(pattern.step), narrow(pattern.cycle)};
}

// A weight of one group in memory: a matrix of rows and channels whose elements are kernels;
// strides in elements.
struct WeightLayout {
  int64_t groups, rows, channels;
  int64_t group, row, channel;
  SpatialValues size;

  // For the product that writes the output of a convolution, or its input (`backward`).
  static WeightLayout of(const at::Tensor& weight, int64_t groups, bool backward);
};

// Memory of results, in elements: `row` between channels, `image` between images, and positions at
// `stride` from `first` on.
struct ResultLayout {
  int64_t images, image, row, first;
  SpatialValues stride, extent;
};

// An operand of a weight gradient, with or without the phases of its taps.
struct GradientOperand {
  const at::Tensor& planes;
  const PaddedLayout& layout;
  int64_t group;  // stride of groups, in elements
};

class PaddedProgram {
 public:
  // The program of a source interned by ProductProgram. Never destroyed.
  static const PaddedProgram& find(c10::DeviceIndex device, at::ScalarType dtype,
                                   const std::string& source);
  // Largest number of kernel elements.
  static constexpr int64_t kTaps = 64;

  at::ScalarType value_dtype() const noexcept { return value_; }
  c10::DeviceIndex device() const noexcept { return device_; }
  int tile_width() const noexcept { return width_; }
  int64_t tile_rows() const noexcept { return rows_; }
  int64_t tile_columns() const noexcept { return columns_; }
  int64_t value_bytes() const noexcept { return value_bytes_; }

  // Each returns memory that can be freed as soon as the work is enqueued.
  // Packs images [begin, begin + count) of `source`, in the phases of `pattern`.
  at::Tensor pack_padded(const at::Tensor& source, int64_t begin, int64_t count,
                         const PaddedLayout& layout, const TapPattern& pattern) const;
  at::Tensor pack_weights(const at::Tensor& weight, const WeightLayout& layout,
                          const TapPattern& pattern) const;

  // Writes a result from padded images and packed weights, plus `bias` if defined. `gathers`:
  // patches are gathered first, where the padded layout has many more positions than the result.
  void multiply(const WeightLayout& weights, const at::Tensor& packed, const PaddedLayout& layout,
                const TapPattern& pattern, const at::Tensor& planes, bool gathers,
                const ResultLayout& result, const at::Tensor& bias, void* out) const;

  // Gathered patches: a plane per tap with the values that it reads at positions of the result.
  // `gathered`: made by PaddedLayout::of_taps.
  at::Tensor gather_taps(const WeightLayout& weights, const PaddedLayout& layout,
                         const TapPattern& pattern, int64_t images, const at::Tensor& planes,
                         const PaddedLayout& gathered) const;
  // Number of parts for sum_gradients over `images` images. Fewer images never have more parts.
  int64_t gradient_parts(const PaddedLayout& layout, int64_t images) const;
  // `channels` planes of `images` images, contiguous.
  GradientOperand operand(const at::Tensor& planes, const PaddedLayout& layout, int64_t channels,
                          int64_t images) const;
  // Writes the weight gradient over each part of the positions to consecutive arrays in `sums`, or
  // adds it if `adds`. The layout of `gradients` has no phases.
  void sum_gradients(const WeightLayout& weights, const TapPattern& pattern, int64_t images,
                     const GradientOperand& planes, const GradientOperand& gradients, bool adds,
                     const at::Tensor& sums) const;
  void sum_parts(const at::Tensor& sums, int64_t parts, const at::Tensor& out) const;

  // For algorithms with further kernels in the program.
  Kernel& kernel(const char* name) const;
  at::Tensor workspace(int64_t elements) const;
  PaddedSizes sizes(const PaddedLayout& layout, int64_t images) const;
  // Panels of rows per work-item for this number of tiles.
  int64_t panels_of_item(int64_t tiles) const;
  // Adds the number of work-items, the last argument of every kernel.
  void enqueue(Kernel& kernel, int64_t items, LaunchArguments& arguments) const;

 private:
  PaddedProgram(c10::DeviceIndex device, at::ScalarType dtype, const std::string& source);
  int64_t gradient_part(const PaddedLayout& layout, int64_t images) const;

  c10::DeviceIndex device_;
  at::ScalarType value_;
  int64_t value_bytes_;
  int width_;
  int rows_, columns_;      // of a tile
  int filters_, elements_;  // of a tile of gradients
  int64_t processors_;
  std::string source_;
  Kernel* pack_padded_;
  Kernel* pack_weights_;
  Kernel* gather_patches_;
  Kernel* gather_taps_;
  Kernel* padded_tiles_;
  Kernel* padded_gradients_;
  Kernel* sum_parts_;
};

}  // namespace outboard
