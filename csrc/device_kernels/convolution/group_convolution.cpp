#include "device_kernels/convolution/group_convolution.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/product/group_tiles.h"

namespace outboard {
namespace {

using Triple = SpatialValues;
constexpr Triple kNone = {0, 0, 0}, kOnes = {1, 1, 1};

std::array<int32_t, 3> narrow(const Triple& values) {
  return {static_cast<int32_t>(values[0]), static_cast<int32_t>(values[1]),
          static_cast<int32_t>(values[2])};
}

std::array<int32_t, 4> narrow(int64_t first, const Triple& rest) {
  const std::array<int32_t, 3> last = narrow(rest);
  return {static_cast<int32_t>(first), last[0], last[1], last[2]};
}

Triple times(const Triple& a, const Triple& b) { return {a[0] * b[0], a[1] * b[1], a[2] * b[2]}; }

Triple negative(const Triple& a) { return {-a[0], -a[1], -a[2]}; }

int64_t dot(const Triple& a, const Triple& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), int64_t{0});
}

Triple sizes_of(const at::Tensor& tensor) { return spatial(tensor.sizes(), 1); }
Triple strides_of(const at::Tensor& tensor) { return spatial(tensor.strides(), 0); }

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

int64_t way(bool along, bool vectors) {
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

ImageOperand image_of(const at::Tensor& image) {
  ImageOperand operand = {};
  operand.size = narrow(sizes_of(image));
  operand.stride = narrow(strides_of(image));
  return operand;
}

void add_bias(ProductLayout& layout, ProductScalars& scalars, const at::Tensor& bias) {
  if (!bias.defined()) return;
  scalars.adds = true;
  scalars.beta = 1;
  layout.added.row = bias.stride(0);
  layout.added.batch = layout.rows * bias.stride(0);
}

const void* address_of(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr() : nullptr;
}

const void* element(const at::Tensor& tensor, int64_t index) {
  return static_cast<const char*>(tensor.const_data_ptr()) +
         index * static_cast<int64_t>(tensor.element_size());
}

void* mutable_element(const at::Tensor& tensor, int64_t index) {
  return static_cast<char*>(tensor.mutable_data_ptr()) +
         index * static_cast<int64_t>(tensor.element_size());
}

// Positions `first`, `first + step` ... of one dimension of an input, and their kernel elements
// `element`, `element + elements` ... Position q and element j contribute to the output position
// q + shift - j * apart.
struct Remainder {
  int64_t first, positions, element, elements, count, shift, apart;
};

Remainder remainder_of(int64_t first, int64_t size, int64_t kernel, int64_t step, int64_t padding,
                       int64_t dilation) {
  const int64_t common = std::gcd(step, dilation);
  Remainder result = {};
  result.first = first;
  result.positions = (size - first + step - 1) / step;
  result.elements = step / common;
  result.apart = dilation / common;
  while (result.element < result.elements &&
         (first + padding - result.element * dilation) % step != 0) {
    ++result.element;
  }
  if (result.element >= std::min(result.elements, kernel)) {
    result.element = 0;
    return result;  // no kernel element
  }
  result.count = (kernel - result.element + result.elements - 1) / result.elements;
  result.shift = (first + padding - result.element * dilation) / step;
  return result;
}

// Patch elements above which a copy to channels-last is faster than element-wise reads.
constexpr int64_t kManyPatchElements = int64_t{1} << 23;

}  // namespace

void lay_out_for_groups(ConvolutionOperands& operands, const std::string& text) {
  const at::Tensor& weight = operands.weight;
  const int64_t dimensions = weight.dim(), groups = operands.geometry.groups;
  if (dimensions < 4 || !fills_vectors(weight.size(1)) || !fills_vectors(weight.size(0) / groups) ||
      !uses_matrix_units(weight.device().index(), weight.scalar_type(), text)) {
    return;
  }
  const int64_t places = c10::multiply_integers(operands.output_sizes) / operands.output_sizes[1];
  if (places * weight.numel() / weight.size(0) < kManyPatchElements) return;
  const auto format =
      dimensions == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d;
  for (at::Tensor* each : {&operands.input, &operands.weight, &operands.gradient}) {
    if (each->defined()) *each = each->contiguous(format);
  }
}

bool write_output_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& output, const std::string& text) {
  const GroupTiles* tiles = GroupTiles::find(weight.device().index(), weight.scalar_type(),
                                             /*wide=*/false, text);
  if (tiles == nullptr || !ConvolutionPasses::take(output)) return false;
  const Triple positions = sizes_of(output), kernel = sizes_of(weight);
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.depth = weight.size(1) * volume(kernel);
  layout.columns = output.size(0) * volume(positions);
  layout.left.row = weight.stride(0);
  layout.left.batch = layout.rows * weight.stride(0);
  layout.right.batch = weight.size(1) * input.stride(1);
  layout.out.row = output.stride(1);
  layout.out.batch = layout.rows * output.stride(1);
  ProductScalars scalars;
  add_bias(layout, scalars, bias);
  ImageOperand image = image_of(input);
  image.depth = {narrow(weight.size(1), kernel),
                 narrow(weight.stride(1), strides_of(weight)),
                 static_cast<int32_t>(input.stride(1)),
                 narrow(geometry.dilation),
                 narrow(kNone),
                 has_channels_last(input)};
  image.columns = {
      narrow(output.size(0), positions),     narrow(output.stride(0), strides_of(output)),
      static_cast<int32_t>(input.stride(0)), narrow(geometry.stride),
      narrow(negative(geometry.padding)),    0};
  const bool filled = fills_vectors(weight.size(1));
  const GroupTiles::Ways ways = {
      way(nearest(image.depth) < layout.left.row,
          filled && has_channels_last(input) && has_channel_vectors(weight)),
      way(has_channels_last(input), filled && has_channel_vectors(input))};
  tiles->convolve(layout, image, ways, scalars,
                  {weight.const_data_ptr(), input.const_data_ptr(), output.mutable_data_ptr(),
                   address_of(bias)});
  return true;
}

// With a stride above 1, input positions and kernel elements pair up by remainder: one convolution
// of stride 1 per remainder.
bool write_input_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& output,
                           const at::Tensor& weight, const at::Tensor& bias,
                           const at::Tensor& input, const std::string& text) {
  const GroupTiles* tiles = GroupTiles::find(weight.device().index(), weight.scalar_type(),
                                             /*wide=*/false, text);
  if (tiles == nullptr || !ConvolutionPasses::take(input)) return false;
  const Triple size = sizes_of(input), kernel = sizes_of(weight);
  const Triple strides = strides_of(input), weight_strides = strides_of(weight);
  const int64_t channels = weight.size(0) / geometry.groups;
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(1);
  layout.left.row = weight.stride(1);
  layout.left.batch = channels * weight.stride(0);
  layout.right.batch = channels * output.stride(1);
  layout.out.row = input.stride(1);
  layout.out.batch = layout.rows * input.stride(1);
  ProductScalars scalars;
  add_bias(layout, scalars, bias);
  ImageOperand image = image_of(output);
  Triple at;
  for (at[0] = 0; at[0] < std::min(geometry.stride[0], size[0]); ++at[0]) {
    for (at[1] = 0; at[1] < std::min(geometry.stride[1], size[1]); ++at[1]) {
      for (at[2] = 0; at[2] < std::min(geometry.stride[2], size[2]); ++at[2]) {
        Triple positions, first, elements, count, shift, apart;
        for (int d = 0; d < 3; ++d) {
          const Remainder one = remainder_of(at[d], size[d], kernel[d], geometry.stride[d],
                                             geometry.padding[d], geometry.dilation[d]);
          positions[d] = one.positions;
          first[d] = one.element;
          elements[d] = one.elements;
          count[d] = one.count;
          shift[d] = one.shift;
          apart[d] = one.apart;
        }
        layout.depth = channels * volume(count);
        layout.columns = input.size(0) * volume(positions);
        image.depth = {narrow(channels, count),
                       narrow(weight.stride(0), times(weight_strides, elements)),
                       static_cast<int32_t>(output.stride(1)),
                       narrow(negative(apart)),
                       narrow(kNone),
                       has_channels_last(output)};
        image.columns = {narrow(input.size(0), positions),
                         narrow(input.stride(0), times(strides, geometry.stride)),
                         static_cast<int32_t>(output.stride(0)),
                         narrow(kOnes),
                         narrow(shift),
                         0};
        const GroupTiles::Ways ways = {
            way(nearest(image.depth) < layout.left.row, has_channel_vectors(weight)),
            way(has_channels_last(output), fills_vectors(channels) && has_channel_vectors(output))};
        const int64_t begin = dot(at, strides);
        tiles->convolve(layout, image, ways, scalars,
                        {element(weight, dot(first, weight_strides)), output.const_data_ptr(),
                         mutable_element(input, begin), address_of(bias)});
      }
    }
  }
  return true;
}

bool write_weight_by_groups(const ConvolutionGeometry& geometry, const at::Tensor& input,
                            const at::Tensor& output, const at::Tensor& weight,
                            const std::string& text) {
  const GroupTiles* tiles = GroupTiles::find(weight.device().index(), weight.scalar_type(),
                                             /*wide=*/false, text);
  if (tiles == nullptr || !ConvolutionPasses::take(weight)) return false;
  const Triple positions = sizes_of(output), kernel = sizes_of(weight);
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.depth = output.size(0) * volume(positions);
  layout.columns = weight.size(1) * volume(kernel);
  layout.left.row = output.stride(1);
  layout.left.batch = layout.rows * output.stride(1);
  layout.right.batch = weight.size(1) * input.stride(1);
  layout.out.row = weight.stride(0);
  layout.out.batch = layout.rows * weight.stride(0);
  ImageOperand image = image_of(input);
  image.depth = {
      narrow(output.size(0), positions),     narrow(output.stride(0), strides_of(output)),
      static_cast<int32_t>(input.stride(0)), narrow(geometry.stride),
      narrow(negative(geometry.padding)),    0};
  image.columns = {narrow(weight.size(1), kernel),
                   narrow(weight.stride(1), strides_of(weight)),
                   static_cast<int32_t>(input.stride(1)),
                   narrow(geometry.dilation),
                   narrow(kNone),
                   has_channels_last(input)};
  const GroupTiles::Ways ways = {
      way(nearest(image.depth) < layout.left.row,
          (geometry.groups == 1 || fills_vectors(layout.rows)) && has_channel_vectors(output)),
      way(!has_channels_last(input), fills_vectors(weight.size(1)) && has_channel_vectors(input))};
  tiles->convolve(
      layout, image, ways, ProductScalars(),
      {output.const_data_ptr(), input.const_data_ptr(), weight.mutable_data_ptr(), nullptr});
  return true;
}

}  // namespace outboard
