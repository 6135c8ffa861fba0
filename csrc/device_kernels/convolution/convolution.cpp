#include "device_kernels/convolution/convolution.h"

#include <ATen/ops/sum.h>

#include <algorithm>
#include <array>

#include "tensors/empty.h"
#include "device_kernels/kernel_types.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;
using Triple = std::array<int64_t, 3>;

// Memory for products that are added up afterwards.
constexpr int64_t kColumnBytes = int64_t{32} << 20;

// Spatial dimensions are always three here; those that a tensor lacks have size 1.
Triple spatial(at::IntArrayRef values, int64_t missing) {
  Triple result = {missing, missing, missing};
  std::copy(values.begin() + 2, values.end(), result.end() - (values.size() - 2));
  return result;
}

// A parameter with one value for each of `count` dimensions, or one for all. False if it is wrong.
bool read_triple(const c10::IValue& value, size_t count, int64_t missing, int64_t least,
                 Triple& triple) {
  const std::vector<int64_t> given = value.toIntVector();
  if (given.size() != count && given.size() != 1) return false;
  triple = {missing, missing, missing};
  for (size_t i = 0; i < count; ++i) triple[3 - count + i] = given[given.size() == 1 ? 0 : i];
  return std::all_of(triple.begin(), triple.end(), [&](int64_t v) { return v >= least; });
}

int64_t volume(const Triple& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// As the kernels have it.
struct Patches {
  int64_t batches, depth, begin, count;
  int64_t group, image, channel;
  Triple size, stride;
  Triple kernel_size, step, padding, dilation;
  Triple positions;
  int64_t scattered, across;
};

// Whether positions of an image follow each other at one stride.
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

// Elements between the filters of a contiguous weight. The stride does not say it: that of a single
// filter can be anything.
int64_t filter_elements(const at::Tensor& weight) { return weight.numel() / weight.size(0); }

at::MemoryFormat format_for(const at::Tensor& input, const at::Tensor& weight) {
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

bool fits_narrow_index(const at::Tensor& tensor) {
  constexpr int64_t kLargest = (int64_t{1} << 31) - 4096;
  int64_t extent = 1;
  for (int64_t d = 0; d < tensor.dim(); ++d) extent += tensor.size(d) * tensor.stride(d);
  return extent < kLargest;
}

}  // namespace

struct ConvolutionKernel::Geometry {
  Triple stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;

  // Sizes of what the operator returns; empty where arguments do not fit each other.
  at::DimVector output_sizes(const at::Tensor& input, const at::Tensor& weight) const {
    const int64_t in_channels = transposed ? weight.size(0) : weight.size(1) * groups;
    if (input.size(1) != in_channels || weight.size(0) % groups != 0) return {};
    const Triple image = spatial(input.sizes(), 1), kernel = spatial(weight.sizes(), 1);
    at::DimVector sizes = {input.size(0), transposed ? weight.size(1) * groups : weight.size(0)};
    for (int64_t d = 5 - input.dim(); d < 3; ++d) {
      const int64_t reach = dilation[d] * (kernel[d] - 1) + 1;
      const int64_t size =
          transposed ? (image[d] - 1) * stride[d] - 2 * padding[d] + reach + output_padding[d]
          : image[d] + 2 * padding[d] < reach ? 0
                                              : (image[d] + 2 * padding[d] - reach) / stride[d] + 1;
      if (size <= 0) return {};
      sizes.push_back(size);
    }
    return sizes;
  }

  Patches patches(const at::Tensor& source, const Triple& kernel, const Triple& positions) const {
    Patches result = {};
    result.batches = groups;
    result.image = source.stride(0);
    result.channel = source.stride(1);
    result.group = source.size(1) / groups * source.stride(1);
    result.size = spatial(source.sizes(), 1);
    result.stride = spatial(source.strides(), 1);
    result.kernel_size = kernel;
    result.step = stride;
    result.padding = padding;
    result.dilation = dilation;
    result.positions = positions;
    return result;
  }
};

namespace {

// out = left @ patches (+ bias), as many columns at a time as a cache holds.
void multiply_patches(const ProductProgram& program, const ProductLayout& layout,
                      const at::Tensor& left, const at::Tensor& image, Patches patches,
                      const at::Tensor& bias, const at::Tensor& out) {
  ProductScalars scalars;
  scalars.adds = bias.defined();
  scalars.beta = 1;
  const at::Tensor packed_left = program.pack_left(layout, left.const_data_ptr());
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
    program.multiply(layout, scalars, packed_left, packed, out.mutable_data_ptr(),
                     bias.defined() ? bias.const_data_ptr() : nullptr, begin, patches.count);
  }
}

// How a product writes an image: rows are channels, columns are positions of all images.
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

}  // namespace

ConvolutionKernel::ConvolutionKernel(const Row& row, const c10::FunctionSchema& schema)
    : EngineKernel(row, schema),
      backward_(row.flag("backward")),
      dtypes_(static_cast<uint64_t>(row.integer("dtypes"))),
      plain_dtypes_(static_cast<uint64_t>(row.integer("plain_dtypes"))),
      source_(ProductProgram::keep(row.text("source"))),
      input_(overload_.index("input")),
      weight_(overload_.index("weight")),
      stride_(overload_.index("stride")),
      padding_(overload_.index("padding")),
      dilation_(overload_.index("dilation")),
      transposed_(overload_.index("transposed")),
      output_padding_(overload_.index("output_padding")),
      groups_(overload_.index("groups")) {}

bool ConvolutionKernel::serves(const at::Tensor& tensor, const at::Tensor& like,
                               c10::DeviceIndex device) const {
  return is_dense_on(tensor, device) && tensor.scalar_type() == like.scalar_type() &&
         tensor.numel() > 0 && fits_narrow_index(tensor);
}

bool ConvolutionKernel::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                            torch::jit::Stack* stack, c10::DeviceIndex device) {
  const at::Tensor& input = overload_.read(*stack, input_).toTensor();
  const at::Tensor& weight = overload_.read(*stack, weight_).toTensor();
  if (!input.defined() || !weight.defined()) return false;
  const ScalarType dtype = input.scalar_type();
  if (((dtypes_ >> static_cast<int>(dtype)) & 1) == 0 || !computes(device, dtype) ||
      !serves(input, input, device) || !serves(weight, input, device) || input.dim() < 3 ||
      input.dim() > 5 || weight.dim() != input.dim()) {
    return false;
  }
  if ((plain_dtypes_ & dtype_bit(dtype)) != 0) {
    const std::vector<int64_t> dilation = overload_.read(*stack, dilation_).toIntVector();
    const bool dilated =
        std::any_of(dilation.begin(), dilation.end(), [](int64_t step) { return step != 1; });
    if (dilated || overload_.read(*stack, transposed_).toBool()) return false;
  }
  Geometry geometry;
  const auto count = static_cast<size_t>(input.dim() - 2);
  geometry.transposed = overload_.read(*stack, transposed_).toBool();
  geometry.groups = overload_.read(*stack, groups_).toInt();
  if (geometry.groups < 1 ||
      !read_triple(overload_.read(*stack, stride_), count, 1, 1, geometry.stride) ||
      !read_triple(overload_.read(*stack, padding_), count, 0, 0, geometry.padding) ||
      !read_triple(overload_.read(*stack, dilation_), count, 1, 1, geometry.dilation) ||
      !read_triple(overload_.read(*stack, output_padding_), count, 0, 0, geometry.output_padding)) {
    return false;
  }
  if (geometry.transposed) {
    for (int d = 0; d < 3; ++d) {
      if (geometry.output_padding[d] >= std::max(geometry.stride[d], geometry.dilation[d]) &&
          geometry.output_padding[d] > 0) {
        return false;
      }
    }
  }
  return backward_ ? run_backward(stack, geometry, input, weight)
                   : run_forward(stack, geometry, input, weight);
}

bool ConvolutionKernel::run_forward(torch::jit::Stack* stack, const Geometry& geometry,
                                    const at::Tensor& input, const at::Tensor& weight) {
  const c10::DeviceIndex device = input.device().index();
  const c10::IValue& given_bias = overload_.read(*stack, overload_.index("bias"));
  const at::Tensor bias = given_bias.isTensor() ? given_bias.toTensor() : at::Tensor();
  const at::DimVector sizes = geometry.output_sizes(input, weight);
  if (sizes.empty()) return false;
  if (bias.defined() &&
      (!serves(bias, input, device) || bias.dim() != 1 || bias.size(0) != sizes[1])) {
    return false;
  }
  at::Tensor output = empty_on(device, sizes, input.scalar_type(), format_for(input, weight));
  if (geometry.transposed) {
    write_input(geometry, input, weight, bias, output);
  } else {
    write_output(geometry, input, weight, bias, output);
  }
  overload_.finish(stack, std::move(output));
  return true;
}

bool ConvolutionKernel::run_backward(torch::jit::Stack* stack, const Geometry& geometry,
                                     const at::Tensor& input, const at::Tensor& weight) {
  const c10::DeviceIndex device = input.device().index();
  const at::Tensor gradient = overload_.read(*stack, overload_.index("grad_output")).toTensor();
  const at::DimVector sizes = geometry.output_sizes(input, weight);
  if (sizes.empty() || !serves(gradient, input, device) || gradient.sizes() != sizes) return false;
  const auto mask = overload_.read(*stack, overload_.index("output_mask")).toBoolList();
  const ScalarType dtype = input.scalar_type();
  const at::MemoryFormat format = format_for(input, weight);
  std::vector<at::Tensor> results(3);
  if (mask.get(0)) {
    results[0] = empty_on(device, input.sizes(), dtype, format);
    if (geometry.transposed) {
      write_output(geometry, gradient, weight, at::Tensor(), results[0]);
    } else {
      write_input(geometry, gradient, weight, at::Tensor(), results[0]);
    }
  }
  if (mask.get(1)) {
    results[1] = empty_on(device, weight.sizes(), dtype);
    if (geometry.transposed) {
      write_weight(geometry, gradient, input, results[1]);
    } else {
      write_weight(geometry, input, gradient, results[1]);
    }
  }
  if (mask.get(2)) {
    results[2] = empty_on(device, {sizes[1]}, dtype);
    at::DimVector others;
    for (int64_t d = 0; d < gradient.dim(); ++d) {
      if (d != 1) others.push_back(d);
    }
    at::sum_out(results[2], gradient, others);
  }
  overload_.finish(stack, std::move(results));
  return true;
}

void ConvolutionKernel::write_output(const Geometry& geometry, const at::Tensor& input,
                                     const at::Tensor& weight, const at::Tensor& bias,
                                     const at::Tensor& output) const {
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
      geometry.patches(input, spatial(weight.sizes(), 1), spatial(output.sizes(), 1));
  const auto& program = ProductProgram::find(input.device().index(), input.scalar_type(),
                                             needs_wide_index(layout), source_);
  multiply_patches(program, layout, left, input, patches, bias, output);
}

// With steps most kernel elements meet nothing at a position of `input`. So the product is made for
// the positions of `output`, and what falls on one place is added up afterwards.
void ConvolutionKernel::write_input_with_steps(const Geometry& geometry, const at::Tensor& output,
                                               const at::Tensor& weight, const at::Tensor& bias,
                                               const at::Tensor& input) const {
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
  at::Tensor packed_left;
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
    const auto& program = ProductProgram::find(input.device().index(), input.scalar_type(),
                                               needs_wide_index(layout), source_);
    packed_left = program.pack_left(layout, left.const_data_ptr());
    const at::Tensor packed_right = program.pack_right(layout, right.const_data_ptr());
    const at::Tensor columns =
        empty_on(input.device().index(), {patch, layout.columns}, input.scalar_type());
    program.multiply(layout, ProductScalars(), packed_left, packed_right,
                     columns.mutable_data_ptr(), nullptr, 0, layout.columns);
    const at::Tensor part = input.narrow(0, begin, images);
    Patches patches =
        geometry.patches(part, spatial(weight.sizes(), 1), spatial(output.sizes(), 1));
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

void ConvolutionKernel::write_input(const Geometry& geometry, const at::Tensor& output,
                                    const at::Tensor& weight, const at::Tensor& bias,
                                    const at::Tensor& input) const {
  const bool steps = std::any_of(geometry.stride.begin(), geometry.stride.end(),
                                 [](int64_t step) { return step > 1; });
  // Columns of narrow dtypes would be rounded before they are added up.
  if (steps && input.element_size() >= 4) {
    write_input_with_steps(geometry, output, weight, bias, input);
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
  Patches patches = geometry.patches(output, spatial(weight.sizes(), 1), spatial(input.sizes(), 1));
  patches.scattered = 1;
  const auto& program = ProductProgram::find(input.device().index(), input.scalar_type(),
                                             needs_wide_index(layout), source_);
  multiply_patches(program, layout, left, output, patches, bias, input);
}

void ConvolutionKernel::write_weight(const Geometry& geometry, const at::Tensor& input,
                                     const at::Tensor& output, const at::Tensor& weight) const {
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
  Patches patches = geometry.patches(input, spatial(weight.sizes(), 1), spatial(output.sizes(), 1));
  patches.across = 1;
  const auto& program = ProductProgram::find(input.device().index(), input.scalar_type(),
                                             needs_wide_index(layout), source_);
  multiply_patches(program, layout, left, input, patches, at::Tensor(), weight);
}

OUTBOARD_ENGINE("convolution", ConvolutionKernel);

}  // namespace outboard
