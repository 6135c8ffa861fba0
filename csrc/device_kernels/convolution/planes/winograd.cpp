#include "device_kernels/convolution/planes/winograd.h"

#include <algorithm>

#include "device_kernels/convolution/planes/plane_arguments.h"
#include "device_kernels/convolution/planes/plane_program.h"
#include "runtime/driver/device.h"
#include "tensors/span.h"

namespace outboard {
namespace {

constexpr int64_t kPoints = 16;  // products of a tile
// Of channels and of rows of a group, below which the sums before and behind the products take
// longer than what is saved.
constexpr int64_t kLeastChannels = 32;
// The kernels are transformed in the time in which so many tiles are multiplied.
constexpr int64_t kTransformTiles = 48;
constexpr int64_t kPointBytes = int64_t{16} << 20;  // of the images that are transformed at a time
constexpr int64_t kTransformed = 16;                // channels of weights of a work item

// As the kernels have it.
struct Grid {
  int32_t images, high, wide, pitch, weights, places;
};

bool suits(const ConvolutionGeometry& geometry, const at::Tensor& result, const at::Tensor& weight,
           const WeightLayout& weights) {
  const SpatialValues one = {1, 1, 1}, kernel = {1, 3, 3};
  return device_properties(result.device().index()).kind == OB_DEVICE_CPU && result.dim() == 4 &&
         weight.scalar_type() == at::ScalarType::Float && weights.size == kernel &&
         geometry.stride == one && geometry.dilation == one && geometry.padding[0] == 0 &&
         geometry.padding[1] <= 2 && geometry.padding[2] <= 2 && weights.rows >= kLeastChannels &&
         weights.channels >= kLeastChannels && result.stride(-1) == 1 &&
         std::max(span_elements(result), kPoints * weight.numel()) <= kLargestPlaneIndex;
}

at::Tensor transform_weights(const PlaneProgram& program, const at::Tensor& weight,
                             const WeightLayout& layout, bool flipped, const Grid& grid) {
  const int64_t panels = divide_up(layout.rows, program.tile_rows());
  at::Tensor packed = program.workspace(kPoints * int64_t{grid.weights});
  LaunchArguments arguments;
  arguments.address(weight.const_data_ptr()).address(packed.mutable_data_ptr());
  arguments.value(Weights{narrow(layout.rows),
                          narrow(layout.channels),
                          narrow(layout.group),
                          narrow(layout.row),
                          narrow(layout.channel),
                          narrow(layout.size),
                          {},
                          {},
                          {}});
  arguments.value(grid)
      .value(static_cast<int32_t>(flipped))
      .value(narrow(panels))
      .value(narrow(kTransformed));
  program.enqueue(program.kernel("winograd_weights"),
                  layout.groups * panels * divide_up(layout.channels, kTransformed), arguments);
  return packed;
}

// result = source * weight, the kernels `flipped` or not, with `padding` around the source, whose
// planes are left in `kept` if all images are packed at once.
bool write(const at::Tensor& source, const at::Tensor& weight, const WeightLayout& weights,
           bool flipped, const SpatialValues& padding, const at::Tensor& bias,
           const at::Tensor& result, const BoundEpilogue* epilogue, const std::string& text,
           GradientPlanes& kept) {
  const SpatialValues extent = spatial(result.sizes(), 1);
  const int64_t high = divide_up(extent[1], 2), wide = divide_up(extent[2], 2);
  ConvolutionGeometry geometry = {};
  geometry.stride = geometry.dilation = {1, 1, 1};
  geometry.padding = padding;
  const TapPattern pattern = forward_taps(geometry, weights.size);
  PlaneLayout layout;
  layout.make_room(pattern, spatial(source.sizes(), 1), {1, 2 * high, 2 * wide});
  const auto& program = PlaneProgram::find(source.device().index(), source.scalar_type(), text);

  const int64_t channels = source.size(1), tiles = high * wide;
  const int64_t columns = program.tile_columns();
  const int64_t multiplied = divide_up(tiles * source.size(0), columns) * columns;
  if (kPoints * (multiplied + kTransformTiles) > 9 * source.size(0) * volume(extent)) return false;
  const int64_t image_bytes = kPoints * channels * tiles * program.value_bytes();
  int64_t at_a_time = std::clamp<int64_t>(kPointBytes / image_bytes, 1, source.size(0));
  at_a_time = divide_up(source.size(0), divide_up(source.size(0), at_a_time));
  // All tiles, room for a vector more, and an odd number of lines: see plane_layout.cpp.
  const int64_t line = program.tile_width();
  const auto odd_lines = [&](int64_t elements) { return (divide_up(elements, line) | 1) * line; };
  const int64_t pitch = odd_lines(divide_up(at_a_time * tiles, columns) * columns + line);
  const int64_t row_panels = divide_up(weights.rows, program.tile_rows());
  Grid grid = {0, narrow(high), narrow(wide), narrow(pitch)};
  grid.weights =
      narrow(odd_lines(weights.groups * row_panels * program.tile_rows() * weights.channels));
  grid.places = narrow(odd_lines(channels * pitch));
  at::DimVector some(source.sizes());
  some[0] = at_a_time;
  if (std::max({kPoints * channels * pitch, channels * layout.plane(at_a_time, columns),
                span_elements(some, source.strides())}) > kLargestPlaneIndex) {
    return false;
  }

  const at::Tensor packed = transform_weights(program, weight.contiguous(), weights, flipped, grid);
  for (int64_t begin = 0; begin < source.size(0); begin += at_a_time) {
    const int64_t images = std::min(at_a_time, source.size(0) - begin);
    const at::Tensor planes = program.pack_planes(source, begin, images, layout, pattern);
    if (images == source.size(0)) kept = {planes, layout};
    const at::Tensor points = program.workspace(kPoints * int64_t{grid.places});
    grid.images = narrow(images);
    LaunchArguments transform;
    transform.address(planes.const_data_ptr()).address(points.mutable_data_ptr());
    transform.value(Planes{narrow(layout.phases), narrow(layout.grid), narrow(layout.lead),
                           narrow(layout.plane(images, columns))});
    transform.value(taps_of(pattern)).value(grid);
    program.enqueue(program.kernel("winograd_places"), channels, transform);

    const int64_t column_panels = divide_up(images * tiles, columns);
    const int64_t panels = program.panels_of_item(weights.groups * column_panels * row_panels);
    char* to = static_cast<char*>(result.mutable_data_ptr()) +
               begin * result.stride(0) * static_cast<int64_t>(result.element_size());
    LaunchArguments multiply;
    multiply.address(packed.const_data_ptr()).address(points.const_data_ptr()).address(to);
    multiply.address(bias.defined() ? bias.const_data_ptr() : to);
    multiply.value(Result{narrow(weights.groups),
                          narrow(weights.rows),
                          narrow(weights.channels),
                          narrow(images * tiles),
                          {},
                          narrow(extent),
                          narrow(result.stride(0)),
                          narrow(result.stride(1)),
                          0,
                          narrow(spatial(result.strides(), 1))});
    multiply.value(grid);
    multiply.value(narrow(bias.defined() ? bias.stride(0) : 0)).value(narrow(bias.defined()));
    multiply.value(narrow(panels));
    if (epilogue != nullptr) epilogue->add_arguments(multiply, begin * result.stride(0));
    program.enqueue(program.kernel("winograd_tiles", epilogue),
                    weights.groups * column_panels * divide_up(row_panels, panels), multiply);
  }
  return true;
}

}  // namespace

bool write_output_by_winograd(const ConvolutionGeometry& geometry, const at::Tensor& input,
                              const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& output, const BoundEpilogue* epilogue,
                              const std::string& text) {
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, /*backward=*/false);
  GradientPlanes unused;
  return suits(geometry, output, weight, weights) &&
         write(input, weight, weights, false, geometry.padding, bias, output, epilogue, text,
               unused);
}

// The gradient of an input is a convolution as well, with kernels the other way round and as much
// padding as makes its size fit.
bool write_input_by_winograd(const ConvolutionGeometry& geometry, const at::Tensor& output,
                             const at::Tensor& weight, const at::Tensor& bias,
                             const at::Tensor& input, const BoundEpilogue* epilogue,
                             const std::string& text, GradientPlanes& kept) {
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, /*backward=*/true);
  const SpatialValues padding = {0, 2 - geometry.padding[1], 2 - geometry.padding[2]};
  return suits(geometry, input, weight, weights) &&
         write(output, weight, weights, true, padding, bias, input, epilogue, text, kept);
}

}  // namespace outboard
