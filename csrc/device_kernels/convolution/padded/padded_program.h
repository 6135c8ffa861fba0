// The kernels of kernels/products/padded_convolution.cl for one dtype on one device.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "device_kernels/convolution/padded/padded_layout.h"
#include "runtime/programs/launch.h"

namespace outboard {

// How a weight of a group lies in memory, as a matrix of rows and channels with a kernel each;
// strides in elements.
struct WeightLayout {
  int64_t groups, rows, channels;
  int64_t group, row, channel;
  SpatialValues size;

  // Of the product that makes the output of a convolution, or (`backward`) its input.
  static WeightLayout of(const at::Tensor& weight, int64_t groups, bool backward);
};

// Where results lie: a row of `row` elements' distance for each channel, an image every `image`
// elements, places in it at `stride` from `first` on.
struct ResultLayout {
  int64_t images, image, row, first;
  SpatialValues stride, extent;
};

// What a gradient of a weight is summed of, without phases or with those of its taps.
struct GradientOperand {
  const at::Tensor& planes;
  const PaddedLayout& layout;
  int64_t group;  // elements from group to group
};

class PaddedProgram {
 public:
  // The program of `source`, which ProductProgram::keep returned. Lives for ever.
  static const PaddedProgram& find(c10::DeviceIndex device, at::ScalarType dtype,
                                   const std::string& source);
  // The most elements of a kernel.
  static constexpr int64_t kTaps = 64;

  at::ScalarType value_dtype() const noexcept { return value_; }
  c10::DeviceIndex device() const noexcept { return device_; }
  int tile_width() const noexcept { return width_; }
  int64_t tile_rows() const noexcept { return rows_; }
  int64_t tile_columns() const noexcept { return columns_; }
  int64_t value_bytes() const noexcept { return value_bytes_; }

  // Each returns memory that can be freed as soon as the work is enqueued.
  // Images [begin, begin + count) of `source`, in the phases of `pattern`.
  at::Tensor pack_padded(const at::Tensor& source, int64_t begin, int64_t count,
                         const PaddedLayout& layout, const TapPattern& pattern) const;
  at::Tensor pack_weights(const at::Tensor& weight, const WeightLayout& layout,
                          const TapPattern& pattern) const;

  // Writes a result from planes and packed weights, plus `bias` if it is defined. `gathers`:
  // patches are gathered first, since planes have too many positions that the result has not.
  void multiply(const WeightLayout& weights, const at::Tensor& packed, const PaddedLayout& layout,
                const TapPattern& pattern, const at::Tensor& planes, bool gathers,
                const ResultLayout& result, const at::Tensor& bias, void* out) const;

  // A plane of what each tap meets at the positions of a result, `gathered`, instead of such of an
  // image with more positions. PaddedLayout::of_taps makes the layout.
  at::Tensor gather_taps(const WeightLayout& weights, const PaddedLayout& layout,
                         const TapPattern& pattern, int64_t images, const at::Tensor& planes,
                         const PaddedLayout& gathered) const;
  // How many parts sum_gradients makes of the positions of so many images; fewer images have no
  // more.
  int64_t gradient_parts(const PaddedLayout& layout, int64_t images) const;
  // `channels` planes of `images` images, which lie one behind the other.
  GradientOperand operand(const at::Tensor& planes, const PaddedLayout& layout, int64_t channels,
                          int64_t images) const;
  // The gradient of a weight over each part of the positions, one after the other in `sums`, to
  // which it is added if `adds`. The layout of `gradients` has no phases.
  void sum_gradients(const WeightLayout& weights, const TapPattern& pattern, int64_t images,
                     const GradientOperand& planes, const GradientOperand& gradients, bool adds,
                     const at::Tensor& sums) const;
  void sum_parts(const at::Tensor& sums, int64_t parts, const at::Tensor& out) const;

  // Pieces for algorithms with kernels of their own in the program.
  Kernel& kernel(const char* name) const;
  at::Tensor workspace(int64_t elements) const;
  // How many panels of rows a work item does, where there are so many tiles.
  int64_t panels_of_item(int64_t tiles) const;
  // Adds the number of items, the last argument of every kernel.
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
  std::string text_;
  Kernel* pack_padded_;
  Kernel* pack_weights_;
  Kernel* gather_patches_;
  Kernel* gather_taps_;
  Kernel* padded_tiles_;
  Kernel* padded_gradients_;
  Kernel* sum_parts_;
};

}  // namespace outboard
