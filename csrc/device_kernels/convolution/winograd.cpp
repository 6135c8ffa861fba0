// The passes of a convolution by Winograd's algorithm, on images in the padded layout.
#include <algorithm>

#include "device_kernels/convolution/convolution_passes.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

constexpr int64_t kPoints = 16;  // products per tile
// Channels, and rows of a group, below which the transforms take longer than the saved products.
constexpr int64_t kLeastChannels = 32;
// Transforming the kernels takes as long as multiplying this number of tiles.
constexpr int64_t kTransformTiles = 48;
constexpr int64_t kGradientTiles = 60;             // the same for weight gradients
constexpr int64_t kPointBytes = int64_t{8} << 20;  // transformed images at a time
constexpr int64_t kTransformed = 16;               // channels of weights per work-item
constexpr int64_t kKernels = 256;                  // weight gradients per work-item

// Same layout as in the kernels.
struct TileGrid {
  int64_t images, high, wide, pitch, weights = 0, points = 0;
};

// True if the algorithm supports `weight` and images like `image`.
bool suits(const ConvolutionGeometry& geometry, const at::Tensor& image, const at::Tensor& weight,
           const WeightLayout& weights) {
  const SpatialValues one = {1, 1, 1}, kernel = {1, 3, 3};
  return device_properties(image.device().index()).kind == OB_DEVICE_CPU && image.dim() == 4 &&
         weight.scalar_type() == at::ScalarType::Float && weights.size == kernel &&
         geometry.stride == one && geometry.dilation == one && geometry.padding[0] == 0 &&
         geometry.padding[1] <= 2 && geometry.padding[2] <= 2 && weights.rows >= kLeastChannels &&
         weights.channels >= kLeastChannels &&
         std::max(span_elements(image), kPoints * weight.numel()) <= kLargestPaddedIndex;
}

// Images that are transformed at a time, in batches of about the same size.
int64_t images_at_a_time(const PaddedProgram& program, int64_t images, int64_t channels,
                         int64_t tiles) {
  const int64_t image_bytes = kPoints * channels * tiles * program.value_bytes();
  const int64_t most = std::clamp<int64_t>(kPointBytes / image_bytes, 1, images);
  return divide_up(images, divide_up(images, most));
}

// Rounds up to an odd number of vectors, which avoids cache-set conflicts of powers of 2.
int64_t odd_lines(int64_t elements, int64_t line) { return (divide_up(elements, line) | 1) * line; }

// True if 32-bit indices cover `count` images of `source` and their padded layout.
bool has_small_indices(const at::Tensor& source, int64_t count, int64_t plane) {
  at::DimVector sizes(source.sizes());
  sizes[0] = count;
  return std::max(source.size(1) * plane, span_elements(sizes, source.strides())) <=
         kLargestPaddedIndex;
}

// Transforms tiles of all channels of `planes` (layout: `layout`) to points.
at::Tensor transform_planes(const PaddedProgram& program, const at::Tensor& planes,
                            const PaddedLayout& layout, const TapPattern& pattern, int64_t channels,
                            const TileGrid& grid) {
  const at::Tensor points = program.workspace(kPoints * grid.points);
  LaunchArguments arguments;
  arguments.address(planes.const_data_ptr()).address(points.mutable_data_ptr());
  add_narrow(arguments, program.sizes(layout, grid.images), pattern.of_kernels(), grid);
  program.enqueue("winograd_inputs", channels, arguments);
  return points;
}

// Transforms tiles of grid.images images of a gradient from `begin` on to points.
at::Tensor transform_gradients(const PaddedProgram& program, const at::Tensor& gradient,
                               int64_t begin, const TileGrid& grid) {
  const at::Tensor points = program.workspace(kPoints * grid.points);
  LaunchArguments arguments;
  arguments.address(element(gradient, begin * gradient.stride(0)));
  arguments.address(points.mutable_data_ptr());
  add_narrow(arguments, PaddedSource(gradient, grid.images), grid);
  program.enqueue("winograd_gradients", gradient.size(1), arguments);
  return points;
}

at::Tensor transform_weights(const PaddedProgram& program, const at::Tensor& weight,
                             const WeightLayout& layout, bool flipped, const TileGrid& grid) {
  const int64_t panels = divide_up(layout.rows, program.tile_rows());
  at::Tensor packed = program.workspace(kPoints * grid.weights);
  LaunchArguments arguments;
  arguments.address(weight.const_data_ptr()).address(packed.mutable_data_ptr());
  add_narrow(arguments, PaddedWeights{layout}, grid, flipped, panels, kTransformed);
  program.enqueue("winograd_weights",
                  layout.groups * panels * divide_up(layout.channels, kTransformed), arguments);
  return packed;
}

// result = source * weight with kernels `flipped` or not and `padding` around the source. `cached`
// gets the padded source if all images are packed at once.
bool write(const at::Tensor& source, const at::Tensor& weight, const WeightLayout& weights,
           bool flipped, const SpatialValues& padding, const at::Tensor& bias,
           const at::Tensor& result, PaddedGradient& cached) {
  const SpatialValues extent = sizes_of(result);
  const int64_t high = divide_up(extent[1], 2), wide = divide_up(extent[2], 2);
  ConvolutionGeometry geometry = {};
  geometry.stride = geometry.dilation = {1, 1, 1};
  geometry.padding = padding;
  const TapPattern pattern = forward_taps(geometry, weights.size);
  PaddedLayout layout;
  layout.make_room(pattern, sizes_of(source), {1, 2 * high, 2 * wide});
  const auto& program = PaddedProgram::find(source.device().index(), source.scalar_type());

  const int64_t channels = source.size(1), tiles = high * wide;
  const int64_t columns = program.tile_columns();
  const int64_t multiplied = round_up(tiles * source.size(0), columns);
  if (kPoints * (multiplied + kTransformTiles) > 9 * source.size(0) * volume(extent)) return false;
  const int64_t at_a_time = images_at_a_time(program, source.size(0), channels, tiles);
  // All tiles, plus one vector of padding.
  const int64_t line = program.tile_width();
  const int64_t pitch = odd_lines(round_up(at_a_time * tiles, columns) + line, line);
  const int64_t row_panels = divide_up(weights.rows, program.tile_rows());
  TileGrid grid = {0, high, wide, pitch};
  grid.weights =
      odd_lines(weights.groups * row_panels * program.tile_rows() * weights.channels, line);
  grid.points = odd_lines(channels * pitch, line);
  if (kPoints * channels * pitch > kLargestPaddedIndex ||
      !has_small_indices(source, at_a_time, layout.plane(at_a_time, columns))) {
    return false;
  }

  const at::Tensor packed = transform_weights(program, weight.contiguous(), weights, flipped, grid);
  for (int64_t begin = 0; begin < source.size(0); begin += at_a_time) {
    const int64_t images = std::min(at_a_time, source.size(0) - begin);
    const at::Tensor planes = program.pack_padded(source, begin, images, layout, pattern);
    if (images == source.size(0)) cached = {planes, layout};
    grid.images = images;
    const at::Tensor points = transform_planes(program, planes, layout, pattern, channels, grid);
    const int64_t column_panels = divide_up(images * tiles, columns);
    const int64_t panels = program.panels_of_item(weights.groups * column_panels * row_panels);
    void* to = mutable_element(result, begin * result.stride(0));
    LaunchArguments multiply;
    multiply.address(packed.const_data_ptr()).address(points.const_data_ptr()).address(to);
    multiply.address(bias.defined() ? bias.const_data_ptr() : to);
    add_narrow(multiply,
               PaddedResult{weights.groups,
                            weights.rows,
                            weights.channels,
                            images * tiles,
                            {},
                            extent,
                            result.stride(0),
                            result.stride(1),
                            0,
                            spatial(result.strides(), 1)},
               grid, bias.defined() ? bias.stride(0) : 0, bias.defined(), panels);
    program.enqueue("winograd_tiles",
                    weights.groups * column_panels * divide_up(row_panels, panels), multiply);
  }
  return true;
}

}  // namespace

bool write_output_by_winograd(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, /*backward=*/false);
  PaddedGradient unused;
  return suits(geometry, output, weight, weights) && output.stride(-1) == 1 &&
         write(input, weight, weights, false, geometry.padding, bias, output, unused);
}

// The data gradient is a convolution with flipped kernels and the padding that makes its size fit.
bool write_input_by_winograd(const ConvolutionPass& pass, PaddedGradient& cached) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, /*backward=*/true);
  const SpatialValues padding = {0, 2 - geometry.padding[1], 2 - geometry.padding[2]};
  return suits(geometry, input, weight, weights) && input.stride(-1) == 1 &&
         write(output, weight, weights, true, padding, bias, input, cached);
}

// The weight gradient: sums over tiles of products of the points of `input` and of `output`, a 1x1
// weight gradient per point.
bool write_weight_by_winograd(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, /*backward=*/false);
  if (geometry.groups != 1 || !suits(geometry, input, weight, weights)) return false;
  const SpatialValues extent = sizes_of(output);
  const int64_t high = divide_up(extent[1], 2), wide = divide_up(extent[2], 2);
  const int64_t tiles = high * wide, images = input.size(0);
  const auto& program = PaddedProgram::find(weight.device().index(), weight.scalar_type());
  const int64_t line = program.tile_width(), columns = program.tile_columns();
  const int64_t multiplied = round_up(tiles * images, line);
  if (kPoints * (multiplied + kGradientTiles) > 9 * images * volume(extent)) return false;
  const TapPattern pattern = forward_taps(geometry, weights.size);
  PaddedLayout layout;
  layout.make_room(pattern, sizes_of(input), {1, 2 * high, 2 * wide});
  const PaddedLayout tile_layout = PaddedLayout::unpadded({1, high, wide});
  const int64_t most = std::max(weights.rows, weights.channels);
  const int64_t at_a_time = images_at_a_time(program, images, weights.channels, tiles);
  const int64_t pitch = tile_layout.plane(at_a_time, columns);
  const int64_t parts = program.gradient_parts(tile_layout, at_a_time);
  if (kPoints * std::max(most * pitch, parts * weights.rows * weights.channels) >
          kLargestPaddedIndex ||
      !has_small_indices(input, at_a_time, layout.plane(at_a_time, columns)) ||
      !has_small_indices(output, at_a_time, pitch)) {
    return false;
  }

  WeightLayout points_of_weights = weights;
  points_of_weights.groups = kPoints;
  const int64_t kernels = weights.rows * weights.channels;
  const at::Tensor sums = program.workspace(parts * kPoints * kernels);
  for (int64_t begin = 0; begin < images; begin += at_a_time) {
    const int64_t count = std::min(at_a_time, images - begin);
    TileGrid grid = {count, high, wide, tile_layout.plane(count, columns)};
    grid.points = odd_lines(weights.channels * grid.pitch, line);
    const at::Tensor planes = program.pack_padded(input, begin, count, layout, pattern);
    const at::Tensor met =
        transform_planes(program, planes, layout, pattern, weights.channels, grid);
    const int64_t met_group = grid.points;
    grid.points = odd_lines(weights.rows * grid.pitch, line);
    const at::Tensor gradients = transform_gradients(program, output, begin, grid);
    program.sum_gradients(points_of_weights, single_tap(), count, {met, tile_layout, met_group},
                          {gradients, tile_layout, grid.points}, begin > 0, sums);
  }
  LaunchArguments arguments;
  arguments.address(sums.const_data_ptr()).address(weight.mutable_data_ptr());
  add_narrow(arguments, parts, kernels, kKernels);
  program.enqueue("winograd_kernels", divide_up(kernels, kKernels), arguments);
  return true;
}

}  // namespace outboard
