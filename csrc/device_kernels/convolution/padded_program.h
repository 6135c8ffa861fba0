// Convolutions of images in a padded layout: sizes, and the kernels of
// torch_outboard/kernels/products/padded_convolution.cl for one dtype on one device.
//
// Padded layout: images packed with zeros between rows, so that a kernel element (a tap) reads
// values at one distance from every position.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/work_shape.h"
#include "runtime/programs/launch.h"
#include "tensors/dense.h"

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

  // Positions of `extent` without padding.
  static PaddedLayout unpadded(const SpatialValues& extent);

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

// Arguments in the layout of the kernels, which have 32-bit indices (`add_narrow`).
struct PaddedSizes {
  SpatialValues phases, grid;
  int64_t lead, plane;
};

struct PaddedSource {
  int64_t images, image, channel;
  SpatialValues stride, size, scale = {}, offset = {}, step = {};

  PaddedSource(const at::Tensor& source, int64_t images_)
      : images(images_),
        image(source.stride(0)),
        channel(source.stride(1)),
        stride(spatial(source.strides(), 1)),
        size(sizes_of(source)) {}
};

struct PaddedResult {
  int64_t groups, rows, channels, count;
  SpatialValues grid, extent;
  int64_t image, row, first;
  SpatialValues stride;
};

// Adds an argument of 32-bit numbers for each flag, number or struct of 64-bit ones.
template <class... Layouts>
void add_narrow(LaunchArguments& arguments, const Layouts&... layouts) {
  (add_layout(arguments, layouts, /*wide=*/false), ...);
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

// The same, and the taps that are packed.
struct PaddedWeights : WeightLayout {
  SpatialValues count = {}, first = {}, step = {};
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
  // Never destroyed.
  static const PaddedProgram& find(c10::DeviceIndex device, at::ScalarType dtype);
  // Largest number of kernel elements.
  static constexpr int64_t kTaps = 64;

  at::ScalarType value_dtype() const noexcept { return value_; }
  int tile_width() const noexcept { return width_; }
  int64_t tile_rows() const noexcept { return tiles_.rows; }
  int64_t tile_columns() const noexcept { return columns_; }
  int64_t value_bytes() const noexcept { return static_cast<int64_t>(c10::elementSize(value_)); }

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
  at::Tensor workspace(int64_t elements) const { return empty_on(device_, {elements}, value_); }
  PaddedSizes sizes(const PaddedLayout& layout, int64_t images) const;
  // Panels of rows per work-item for this number of tiles.
  int64_t panels_of_item(int64_t tiles) const;
  // Adds the number of work-items, the last argument of every kernel.
  void enqueue(const char* kernel, int64_t items, LaunchArguments& arguments) const;

 private:
  PaddedProgram(c10::DeviceIndex device, at::ScalarType dtype);
  int64_t gradient_part(const PaddedLayout& layout, int64_t images) const;

  // Tiles that fill the vector registers.
  struct Tiles {
    int rows, vectors;
    int filters, elements;  // of gradients
  };
  static Tiles tiles(c10::DeviceIndex device);

  const c10::DeviceIndex device_;
  const at::ScalarType value_;
  const Tiles tiles_;
  const int width_;
  const int64_t columns_;  // of a tile
  const int64_t processors_;
  const ProgramKernels kernels_;
};

}  // namespace outboard
