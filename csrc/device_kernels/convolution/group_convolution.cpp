// The passes of a convolution as implicit GEMM on GPUs.
#include <array>
#include <numeric>

#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/product/group_tiles.h"

namespace outboard {
namespace {

constexpr SpatialValues kNone = {0, 0, 0}, kOnes = {1, 1, 1};

// The digits of an index (ImageAxes): a channel or an image, and three coordinates.
std::array<int64_t, 4> digits(int64_t first, const SpatialValues& rest) {
  return {first, rest[0], rest[1], rest[2]};
}

SpatialValues times(const SpatialValues& a, const SpatialValues& b) {
  return {a[0] * b[0], a[1] * b[1], a[2] * b[2]};
}

SpatialValues negative(const SpatialValues& a) { return {-a[0], -a[1], -a[2]}; }

int64_t dot(const SpatialValues& a, const SpatialValues& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0});
}

SpatialValues strides_of(const at::Tensor& tensor) { return spatial(tensor.strides(), 0); }

// True if the channels of a position are adjacent in memory.
bool has_channels_last(const at::Tensor& image) {
  return image.size(1) > 1 && image.stride(1) == 1;
}

// Stride in the left operand between adjacent indices along K.
int64_t nearest(const ImageAxes& axes) {
  if (axes.fastest != 0) return axes.other[0];
  for (int d = 3; d > 0; --d) {
    if (axes.size[d] > 1) return axes.other[d];
  }
  return axes.other[0];
}

int64_t access(bool along, bool vectors) {
  return (along ? GroupTiles::kAlongDepth : 0) + (vectors ? GroupTiles::kVectors : 0);
}

// True if aligned vectors of 16 bytes hold channels of one position.
bool has_channel_vectors(const at::Tensor& tensor) {
  constexpr int64_t kBytes = 16;
  const auto bytes = static_cast<int64_t>(tensor.element_size());
  if (bytes != 2 || !has_channels_last(tensor)) return false;
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    if (d != 1 && tensor.size(d) > 1 && tensor.stride(d) * bytes % kBytes != 0) return false;
  }
  return reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) % kBytes == 0;
}

bool fills_vectors(int64_t channels) { return channels % 8 == 0; }

// The dimension of kernel elements in an image that a convolution reads.
ImageAxes kernel_axes(const ConvolutionPass& pass) {
  const at::Tensor& weight = pass.weight;
  return {digits(weight.size(1), sizes_of(weight)),
          digits(weight.stride(1), strides_of(weight)),
          pass.input.stride(1),
          pass.geometry.dilation,
          kNone,
          has_channels_last(pass.input)};
}

// The dimension of output positions in an image that a convolution reads.
ImageAxes position_axes(const ConvolutionPass& pass) {
  const at::Tensor& output = pass.output;
  return {digits(output.size(0), sizes_of(output)),
          digits(output.stride(0), strides_of(output)),
          pass.input.stride(0),
          pass.geometry.stride,
          negative(pass.geometry.padding),
          0};
}

// nullptr if 32-bit indices do not cover the written tensor.
const GroupTiles* find_tiles(const at::Tensor& written) {
  if (!has_small_extent(written)) return nullptr;
  return GroupTiles::find(written.device().index(), written.scalar_type(), /*wide=*/false);
}

// Patch elements above which a copy to channels-last is faster than element-wise reads.
constexpr int64_t kManyPatchElements = int64_t{1} << 23;

}  // namespace

void lay_out_for_groups(ConvolutionOperands& operands) {
  const at::Tensor& weight = operands.weight;
  const int64_t dimensions = weight.dim(), groups = operands.geometry.groups;
  if (dimensions < 4 || !fills_vectors(weight.size(1)) || !fills_vectors(weight.size(0) / groups) ||
      !uses_matrix_units(weight.device().index(), weight.scalar_type())) {
    return;
  }
  const int64_t positions =
      c10::multiply_integers(operands.output_sizes) / operands.output_sizes[1];
  if (positions * weight.numel() / weight.size(0) < kManyPatchElements) return;
  const auto format =
      dimensions == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  for (at::Tensor* each : {&operands.input, &operands.weight, &operands.gradient}) {
    if (each->defined()) *each = each->contiguous(format);
  }
}

bool write_output_by_groups(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const GroupTiles* tiles = find_tiles(output);
  if (tiles == nullptr) return false;
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.depth = weight.size(1) * volume(sizes_of(weight));
  layout.left.row = weight.stride(0);
  layout.left.batch = layout.rows * weight.stride(0);
  layout.right.batch = weight.size(1) * input.stride(1);
  set_image(layout, output, bias);
  const ProductScalars scalars = {1, 1, bias.defined()};
  const ImageOperand image = {kernel_axes(pass), position_axes(pass), sizes_of(input),
                              strides_of(input)};
  const bool filled = fills_vectors(weight.size(1));
  tiles->convolve(layout, image,
                  {access(nearest(image.depth) < layout.left.row,
                          filled && has_channels_last(input) && has_channel_vectors(weight)),
                   access(has_channels_last(input), filled && has_channel_vectors(input))},
                  scalars,
                  {weight.const_data_ptr(), input.const_data_ptr(), output.mutable_data_ptr(),
                   address_of(bias)});
  return true;
}

// With a stride above 1, input positions and kernel elements pair up by remainder: one convolution
// of stride 1 per remainder.
bool write_input_by_groups(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const GroupTiles* tiles = find_tiles(input);
  if (tiles == nullptr) return false;
  const SpatialValues sizes = sizes_of(input), kernel = sizes_of(weight);
  const SpatialValues strides = strides_of(input), weight_strides = strides_of(weight);
  const int64_t channels = weight.size(0) / geometry.groups;
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(1);
  layout.left.row = weight.stride(1);
  layout.left.batch = channels * weight.stride(0);
  layout.right.batch = channels * output.stride(1);
  set_image(layout, input, bias);
  const ProductScalars scalars = {1, 1, bias.defined()};
  ImageOperand image = {{}, {}, sizes_of(output), strides_of(output)};
  for_remainders(geometry, sizes, [&](const SpatialValues& remainder) {
    const SpatialValues& step = pass.geometry.stride;
    const TapPattern taps = backward_taps(pass.geometry, kernel, remainder);
    SpatialValues positions;
    for (int d = 0; d < 3; ++d) positions[d] = divide_up(sizes[d] - remainder[d], step[d]);
    layout.depth = channels * taps.taps();
    layout.columns = pass.input.size(0) * volume(positions);
    image.depth = {digits(channels, taps.count),
                   digits(pass.weight.stride(0), times(weight_strides, taps.each)),
                   pass.output.stride(1),
                   taps.scale,
                   kNone,
                   has_channels_last(pass.output)};
    image.columns = {digits(pass.input.size(0), positions),
                     digits(pass.input.stride(0), times(strides, step)),
                     pass.output.stride(0),
                     kOnes,
                     taps.offset,
                     0};
    // Without taps nothing is read, and the first tap may be outside of the weight.
    const int64_t first_tap = taps.taps() == 0 ? 0 : dot(taps.first, weight_strides);
    tiles->convolve(
        layout, image,
        {access(nearest(image.depth) < layout.left.row, has_channel_vectors(pass.weight)),
         access(has_channels_last(pass.output),
                fills_vectors(channels) && has_channel_vectors(pass.output))},
        scalars,
        {element(pass.weight, first_tap), pass.output.const_data_ptr(),
         mutable_element(pass.input, dot(remainder, strides)), address_of(pass.bias)});
  });
  return true;
}

bool write_weight_by_groups(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const GroupTiles* tiles = find_tiles(weight);
  if (tiles == nullptr) return false;
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.depth = output.size(0) * volume(sizes_of(output));
  layout.columns = weight.size(1) * volume(sizes_of(weight));
  layout.left.row = output.stride(1);
  layout.left.batch = layout.rows * output.stride(1);
  layout.right.batch = weight.size(1) * input.stride(1);
  layout.out.row = weight.stride(0);
  layout.out.batch = layout.rows * weight.stride(0);
  const ImageOperand image = {position_axes(pass), kernel_axes(pass), sizes_of(input),
                              strides_of(input)};
  const bool filled = geometry.groups == 1 || fills_vectors(layout.rows);
  tiles->convolve(
      layout, image,
      {access(nearest(image.depth) < layout.left.row, filled && has_channel_vectors(output)),
       access(!has_channels_last(input),
              fills_vectors(weight.size(1)) && has_channel_vectors(input))},
      ProductScalars(),
      {output.const_data_ptr(), input.const_data_ptr(), weight.mutable_data_ptr(), nullptr});
  return true;
}

}  // namespace outboard
