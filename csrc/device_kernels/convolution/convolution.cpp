// The kernel generator of convolutions in 1 to 3 dimensions, transposed and backward ones included:
// matrix products (product_program.h) with one operand packed from patches of an image (im2col).
#include <algorithm>

#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/product/product_program.h"

namespace outboard {

// Each pass by the first algorithm that takes it, else by im2col.
class ConvolutionKernel final : public ConvolutionOperator {
 public:
  using ConvolutionOperator::ConvolutionOperator;

 protected:
  bool takes(ConvolutionOperands& operands, c10::DeviceIndex device) const override;
  bool write_output(const ConvolutionPass& pass) const override;
  bool write_input(const ConvolutionPass& pass, PaddedGradient& cached) const override;
  bool write_weight(const ConvolutionPass& pass, const PaddedGradient& cached) const override;
};

namespace {

// Workspace for products that are summed afterwards.
constexpr int64_t kColumnBytes = int64_t{32} << 20;

// Same layout as in the kernels.
struct Patches {
  int64_t batches, depth, begin, count;
  int64_t group, image, channel;
  SpatialValues size, stride;
  SpatialValues kernel_size, step, padding, dilation;
  SpatialValues positions;
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

// Elements per filter of a contiguous weight. The stride of a single filter can be any number.
int64_t filter_elements(const at::Tensor& weight) { return weight.numel() / weight.size(0); }

Patches patches_of(const ConvolutionPass& pass, const at::Tensor& source,
                   const SpatialValues& positions) {
  const ConvolutionGeometry& geometry = pass.geometry;
  const SpatialValues kernel = sizes_of(pass.weight);
  Patches result = {};
  result.batches = geometry.groups;
  result.image = source.stride(0);
  result.channel = source.stride(1);
  result.group = source.size(1) / geometry.groups * source.stride(1);
  result.size = sizes_of(source);
  result.stride = spatial(source.strides(), 1);
  result.kernel_size = kernel;
  result.step = geometry.stride;
  result.padding = geometry.padding;
  result.dilation = geometry.dilation;
  result.positions = positions;
  const SpatialValues one = {1, 1, 1}, none = {0, 0, 0};
  if (kernel == one && geometry.stride == one && geometry.padding == none &&
      has_even_positions(source)) {
    // One line of all positions has fewer ends, where vectors are incomplete.
    result.size = result.positions = {1, 1, volume(positions)};
    result.stride = {0, 0, position_stride(source)};
  }
  return result;
}

// out = left @ patches (+ bias), in blocks of columns that fit a cache.
void multiply_patches(const ProductLayout& layout, const at::Tensor& left, const at::Tensor& image,
                      Patches patches, const at::Tensor& bias, const at::Tensor& out) {
  const auto& program = ProductProgram::find(out.device().index(), out.scalar_type(),
                                             needs_wide_index(layout), /*patches=*/true);
  const ProductScalars scalars = {1, 1, bias.defined()};
  const TileOperand rows = program.left_operand(layout, left.const_data_ptr());
  const int64_t step = program.columns_at_a_time(layout);
  const int64_t width = program.tile_columns();
  const int64_t most = divide_up(std::min(step, layout.columns), width);
  const at::Tensor packed = program.workspace(layout.batches * most * width * layout.depth);
  for (int64_t begin = 0; begin < layout.columns; begin += step) {
    patches.begin = begin;
    patches.count = std::min(step, layout.columns - begin);
    patches.depth = layout.depth;
    LaunchArguments arguments;
    arguments.address(image.const_data_ptr()).address(packed.mutable_data_ptr());
    program.add_layout(arguments, patches);
    const int64_t panels = divide_up(patches.count, width);
    program.enqueue("pack_patches", layout.batches * panels * program.slices(layout.depth), true,
                    arguments);
    const TileOperand columns = program.packed_right(packed, layout.depth, patches.count);
    program.multiply(layout, scalars, rows, columns, out.mutable_data_ptr(), address_of(bias),
                     begin, patches.count);
  }
}

// The data gradient with a stride above 1, where most kernel elements meet nothing at a position of
// `input`: the product has columns for positions of `output`, and col2im sums them.
void write_input_with_steps(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const at::Tensor left = weight.contiguous();
  const int64_t positions = volume(sizes_of(output));
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
                                               needs_wide_index(layout), /*patches=*/true);
    const TileOperand a = program.left_operand(layout, left.const_data_ptr());
    const TileOperand b = program.right_operand(layout, right.const_data_ptr());
    const at::Tensor columns =
        empty_on(input.device().index(), {patch, layout.columns}, input.scalar_type());
    program.multiply(layout, ProductScalars(), a, b, columns.mutable_data_ptr(), nullptr, 0,
                     layout.columns);
    const at::Tensor part = input.narrow(0, begin, images);
    Patches patches = patches_of(pass, part, sizes_of(output));
    patches.batches = images;
    patches.depth = channels;
    patches.count = layout.columns;
    LaunchArguments arguments;
    arguments.address(columns.const_data_ptr()).address(part.mutable_data_ptr());
    arguments.address(bias.defined() ? bias.const_data_ptr() : columns.const_data_ptr());
    program.add_layout(arguments, patches);
    program.add_layout(arguments, bias.defined() ? bias.stride(0) : 0);
    arguments.value(static_cast<int32_t>(bias.defined()));
    const int64_t rows = patches.size[0] * patches.size[1];
    program.enqueue("gather_columns", images * channels * rows, true, arguments);
  }
}

}  // namespace

bool has_small_extent(const at::Tensor& tensor) {
  if (!tensor.defined()) return true;
  constexpr int64_t kLargest = (int64_t{1} << 31) - 4096;
  int64_t extent = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) extent += tensor.size(d) * tensor.stride(d);
  return extent < kLargest;
}

void set_image(ProductLayout& layout, const at::Tensor& image, const at::Tensor& bias) {
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

bool ConvolutionKernel::takes(ConvolutionOperands& operands, c10::DeviceIndex device) const {
  if (!computes(device, operands.input.scalar_type()) || !has_small_extent(operands.input) ||
      !has_small_extent(operands.weight) || !has_small_extent(operands.gradient)) {
    return false;
  }
  lay_out_for_groups(operands);
  return true;
}

bool ConvolutionKernel::write_output(const ConvolutionPass& pass) const {
  if (write_output_by_groups(pass)) return true;
  if (write_output_by_winograd(pass)) return true;
  if (write_output_from_padded(pass)) return true;
  const auto& [geometry, input, weight, output, bias] = pass;
  const at::Tensor left = weight.contiguous();
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.depth = layout.inner_depth = filter_elements(left);
  layout.left.batch = layout.rows * layout.depth;
  layout.left.row = layout.depth;
  layout.left.column = 1;
  set_image(layout, output, bias);
  const Patches patches = patches_of(pass, input, sizes_of(output));
  multiply_patches(layout, left, input, patches, bias, output);
  return true;
}

bool ConvolutionKernel::write_input(const ConvolutionPass& pass, PaddedGradient& cached) const {
  if (write_input_by_groups(pass)) return true;
  if (write_input_by_winograd(pass, cached)) return true;
  if (write_input_from_padded(pass, cached)) return true;
  const auto& [geometry, input, weight, output, bias] = pass;
  const bool steps = volume(geometry.stride) > 1;
  // Columns of 16-bit dtypes would be rounded before the sum.
  if (steps && input.element_size() >= 4) {
    write_input_with_steps(pass);
    return true;
  }
  const at::Tensor left = weight.contiguous();
  const int64_t elements = volume(sizes_of(weight));
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
  set_image(layout, input, bias);
  Patches patches = patches_of(pass, output, sizes_of(input));
  patches.scattered = 1;
  multiply_patches(layout, left, output, patches, bias, input);
  return true;
}

bool ConvolutionKernel::write_weight(const ConvolutionPass& pass,
                                     const PaddedGradient& cached) const {
  if (write_weight_by_groups(pass)) return true;
  if (write_weight_by_winograd(pass)) return true;
  if (write_weight_from_padded(pass, cached)) return true;
  const auto& [geometry, input, weight, output, bias] = pass;
  const at::Tensor left = has_even_positions(output) ? output : output.contiguous();
  ProductLayout layout;
  layout.batches = geometry.groups;
  layout.rows = weight.size(0) / geometry.groups;
  layout.columns = layout.inner_columns = filter_elements(weight);
  layout.inner_depth = volume(sizes_of(output));
  layout.depth = layout.inner_depth * output.size(0);
  layout.left.batch = layout.rows * left.stride(1);
  layout.left.row = left.stride(1);
  layout.left.column = position_stride(left);
  layout.left.outer = left.stride(0);
  layout.out.batch = layout.rows * filter_elements(weight);
  layout.out.row = filter_elements(weight);
  layout.out.column = 1;
  Patches patches = patches_of(pass, input, sizes_of(output));
  patches.across = 1;
  multiply_patches(layout, left, input, patches, bias, weight);
  return true;
}

C10_REGISTER_CLASS(DefinitionKinds, convolution, ConvolutionKernel)

}  // namespace outboard
