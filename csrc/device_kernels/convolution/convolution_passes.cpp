#include "device_kernels/convolution/convolution_passes.h"

#include <algorithm>

#include "device_kernels/convolution/group_convolution.h"
#include "device_kernels/convolution/padded/padded_convolution.h"
#include "device_kernels/convolution/padded/winograd.h"
#include "device_kernels/product/product_program.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

using Triple = SpatialValues;

// Workspace for products that are summed afterwards.
constexpr int64_t kColumnBytes = int64_t{32} << 20;

// Same layout as in the kernels.
struct Patches {
  int64_t batches, depth, begin, count;
  int64_t group, image, channel;
  Triple size, stride;
  Triple kernel_size, step, padding, dilation;
  Triple positions;
  int64_t scattered, across;
};

// True if one stride covers all positions of an image.
bool has_even_positions(const at::Tensor& image) {
  int64_t expected = -1;
  for (int64_t d = image.dim() - 1; d >= 2; --d) {
    if (image.size(d) == 1) continue;
    if (expected != -1 && image.stride(d) != expected) return false;
    expected = image.stride(d) * image.size(d);
  }
  return true;
}

int64_t position_stride(const at::Tensor& image) {
  for (int64_t d = image.dim() - 1; d >= 2; --d) {
    if (image.size(d) != 1) return image.stride(d);
  }
  return 1;
}

// Elements per filter of a contiguous weight. A stride of a single filter can be anything.
int64_t filter_elements(const at::Tensor& weight) { return weight.numel() / weight.size(0); }

Patches patches_of(const ConvolutionGeometry& geometry, const at::Tensor& source,
                   const Triple& kernel, const Triple& positions) {
  Patches result = {};
  result.batches = geometry.groups;
  result.image = source.stride(0);
  result.channel = source.stride(1);
  result.group = source.size(1) / geometry.groups * source.stride(1);
  result.size = spatial(source.sizes(), 1);
  result.stride = spatial(source.strides(), 1);
  result.kernel_size = kernel;
  result.step = geometry.stride;
  result.padding = geometry.padding;
  result.dilation = geometry.dilation;
  result.positions = positions;
  const Triple one = {1, 1, 1}, none = {0, 0, 0};
  if (kernel == one && geometry.stride == one && geometry.padding == none &&
      has_even_positions(source)) {
    // One line of all positions: vectors are cut less often than with several lines.
    result.size = result.positions = {1, 1, volume(positions)};
    result.stride = {0, 0, position_stride(source)};
  }
  return result;
}

// out = left @ patches (+ bias), in blocks of columns that fit a cache.
void multiply_patches(const ProductProgram& program, const ProductLayout& layout,
                      const at::Tensor& left, const at::Tensor& image, Patches patches,
                      const at::Tensor& bias, const at::Tensor& out) {
  ProductScalars scalars;
  scalars.adds = bias.defined();
  scalars.beta = 1;
  const TileOperand rows = program.left_operand(layout, left.const_data_ptr());
  const int64_t step = program.columns_at_a_time(layout);
  const int64_t width = program.tile_columns();
  Kernel& pack = program.kernel("pack_patches");
  const int64_t most = (std::min(step, layout.columns) + width - 1) / width;
  const at::Tensor packed = program.workspace(layout.batches * most * width * layout.depth);
  for (int64_t begin = 0; begin < layout.columns; begin += step) {
    patches.begin = begin;
    patches.count = std::min(step, layout.columns - begin);
    patches.depth = layout.depth;
    LaunchArguments arguments;
    arguments.address(image.const_data_ptr()).address(packed.mutable_data_ptr());
    program.add_layout(arguments, patches);
    const int64_t panels = (patches.count + width - 1) / width;
    program.enqueue(pack, layout.batches * panels * program.slices(layout.depth), true, arguments);
    const TileOperand columns = program.packed_right(packed, layout.depth, patches.count);
    program.multiply(layout, scalars, rows, columns, out.mutable_data_ptr(),
                     bias.defined() ? bias.const_data_ptr() : nullptr, begin, patches.count);
  }
}

// Layout of an image as a result of a product: rows are channels, columns positions of all images.
void write_image(ProductLayout& layout, const at::Tensor& image, const at::Tensor& bias) {
  layout.out.row = image.stride(1);
  layout.out.batch = layout.rows * image.stride(1);
  layout.out.column = position_stride(image);
  layout.out.outer = image.stride(0);
  layout.inner_columns = image.numel() / image.size(0) / image.size(1);
  layout.columns = layout.inner_columns * image.size(0);
  if (bias.defined()) {
    layout.added.row = bias.stride(0);
    layout.added.batch = layout.rows * bias.stride(0);
  }
}

// With a stride above 1 most kernel elements meet nothing at a position of `input`. So the product
// has columns for positions of `output`, and col2im sums them afterwards.
void write_input_with_steps(const ConvolutionGeometry& geometry, const at::Tensor& output,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& input, const std::string& source) {
  const at::Tensor left = weight.contiguous();
  const int64_t positions = volume(spatial(output.sizes(), 1));
  const int64_t channels = input.size(1);
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = filter_elements(left);
  layout.depth = layout.inner_depth = weight.size(0) / geometry.groups;
  layout.left.batch = layout.depth * filter_elements(left);
  layout.left.row = 1;
  layout.left.column = filter_elements(left);
  const int64_t patch = layout.rows * geometry.groups;
  const int64_t image_bytes = patch * positions * static_cast<int64_t>(output.element_size());
  const int64_t at_a_time = std::clamp<int64_t>(kColumnBytes / image_bytes, 1, output.size(0));
  for (int64_t begin = 0; begin < output.size(0); begin += at_a_time) {
    const int64_t images = std::min(at_a_time, output.size(0) - begin);
    const at::Tensor right = output.narrow(0, begin, images).transpose(0, 1).contiguous();
    layout.columns = layout.inner_columns = images * positions;
    layout.right.row = layout.columns;
    layout.right.column = 1;
    layout.right.batch = layout.depth * layout.columns;
    layout.out.row = layout.columns;
    layout.out.column = 1;
    layout.out.batch = layout.rows * layout.columns;
    const auto& program = ProductProgram::find(weight.device().index(), weight.scalar_type(),
                                               needs_wide_index(layout), source);
    const TileOperand a = program.left_operand(layout, left.const_data_ptr());
    const TileOperand b = program.right_operand(layout, right.const_data_ptr());
    const at::Tensor columns =
        empty_on(input.device().index(), {patch, layout.columns}, input.scalar_type());
    program.multiply(layout, ProductScalars(), a, b, columns.mutable_data_ptr(), nullptr, 0,
                     layout.columns);
    const at::Tensor part = input.narrow(0, begin, images);
    Patches patches =
        patches_of(geometry, part, spatial(weight.sizes(), 1), spatial(output.sizes(), 1));
    patches.batches = images;
    patches.depth = channels;
    patches.count = layout.columns;
    LaunchArguments arguments;
    arguments.address(columns.const_data_ptr()).address(part.mutable_data_ptr());
    arguments.address(bias.defined() ? bias.const_data_ptr() : columns.const_data_ptr());
    program.add_layout(arguments, patches);
    program.add_index(arguments, bias.defined() ? bias.stride(0) : 0);
    arguments.value(static_cast<int32_t>(bias.defined()));
    const int64_t rows = patches.size[0] * patches.size[1];
    program.enqueue(program.kernel("gather_columns"), images * channels * rows, true, arguments);
  }
}

}  // namespace

bool ConvolutionPasses::take(const at::Tensor& tensor) {
  if (!tensor.defined()) return true;
  constexpr int64_t kLargest = (int64_t{1} << 31) - 4096;
  int64_t extent = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) extent += tensor.size(d) * tensor.stride(d);
  return extent < kLargest;
}

ConvolutionPasses::ConvolutionPasses(const std::string& source, const std::string& padded,
                                     const std::string& groups)
    : source_(source), padded_(padded), groups_(groups) {}

void ConvolutionPasses::lay_out(ConvolutionOperands& operands) const {
  lay_out_for_groups(operands, groups_);
}

void ConvolutionPasses::write_result(const ConvolutionGeometry& geometry, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& result) const {
  if (!geometry.transposed) return write_output(geometry, input, weight, bias, result);
  PaddedGradient cached;
  write_input(geometry, input, weight, bias, result, cached);
}

void ConvolutionPasses::write_output(const ConvolutionGeometry& geometry, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& output) const {
  if (write_output_by_groups(geometry, input, weight, bias, output, groups_)) return;
  if (write_output_by_winograd(geometry, input, weight, bias, output, padded_)) return;
  if (write_output_from_padded(geometry, input, weight, bias, output, padded_)) return;
  const at::Tensor left = weight.contiguous();
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.depth = layout.inner_depth = filter_elements(left);
  layout.left.batch = layout.rows * layout.depth;
  layout.left.row = layout.depth;
  layout.left.column = 1;
  write_image(layout, output, bias);
  const Patches patches =
      patches_of(geometry, input, spatial(weight.sizes(), 1), spatial(output.sizes(), 1));
  const auto& program = ProductProgram::find(weight.device().index(), weight.scalar_type(),
                                             needs_wide_index(layout), source_);
  multiply_patches(program, layout, left, input, patches, bias, output);
}

void ConvolutionPasses::write_input(const ConvolutionGeometry& geometry, const at::Tensor& output,
                                    const at::Tensor& weight, const at::Tensor& bias,
                                    const at::Tensor& input, PaddedGradient& cached) const {
  if (write_input_by_groups(geometry, output, weight, bias, input, groups_)) return;
  if (write_input_by_winograd(geometry, output, weight, bias, input, padded_, cached)) return;
  if (write_input_from_padded(geometry, output, weight, bias, input, padded_, cached)) return;
  const bool steps = std::any_of(geometry.stride.begin(), geometry.stride.end(),
                                 [](int64_t step) { return step > 1; });
  // Columns of 16-bit dtypes would be rounded before the sum.
  if (steps && input.element_size() >= 4) {
    write_input_with_steps(geometry, output, weight, bias, input, source_);
    return;
  }
  const at::Tensor left = weight.contiguous();
  const int64_t elements = volume(spatial(weight.sizes(), 1));
  const int64_t channels = weight.size(0) / geometry.groups;
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(1);
  layout.depth = channels * elements;
  layout.inner_depth = elements;
  layout.left.batch = channels * filter_elements(left);
  layout.left.row = elements;
  layout.left.column = 1;
  layout.left.outer = filter_elements(left);
  write_image(layout, input, bias);
  Patches patches =
      patches_of(geometry, output, spatial(weight.sizes(), 1), spatial(input.sizes(), 1));
  patches.scattered = 1;
  const auto& program = ProductProgram::find(weight.device().index(), weight.scalar_type(),
                                             needs_wide_index(layout), source_);
  multiply_patches(program, layout, left, output, patches, bias, input);
}

void ConvolutionPasses::write_weight(const ConvolutionGeometry& geometry, const at::Tensor& input,
                                     const at::Tensor& output, const at::Tensor& weight,
                                     const PaddedGradient& cached) const {
  if (write_weight_by_groups(geometry, input, output, weight, groups_)) return;
  if (write_weight_by_winograd(geometry, input, output, weight, padded_)) return;
  if (write_weight_from_padded(geometry, input, output, weight, padded_, cached)) return;
  const at::Tensor left = has_even_positions(output) ? output : output.contiguous();
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.columns = layout.inner_columns = filter_elements(weight);
  layout.inner_depth = volume(spatial(output.sizes(), 1));
  layout.depth = layout.inner_depth * output.size(0);
  layout.left.batch = layout.rows * left.stride(1);
  layout.left.row = left.stride(1);
  layout.left.column = position_stride(left);
  layout.left.outer = left.stride(0);
  layout.out.batch = layout.rows * filter_elements(weight);
  layout.out.row = filter_elements(weight);
  layout.out.column = 1;
  Patches patches =
      patches_of(geometry, input, spatial(weight.sizes(), 1), spatial(output.sizes(), 1));
  patches.across = 1;
  const auto& program = ProductProgram::find(weight.device().index(), weight.scalar_type(),
                                             needs_wide_index(layout), source_);
  multiply_patches(program, layout, left, input, patches, at::Tensor(), weight);
}

}  // namespace outboard
