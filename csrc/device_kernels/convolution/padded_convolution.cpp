// The passes of a convolution over the padded layout.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "device_kernels/convolution/convolution_passes.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

// Workspace for the padded images that are packed at a time.
constexpr int64_t kPlaneBytes = int64_t{16} << 20;
// Rows per group below which most of a tile would be empty.
constexpr int64_t kRows = 4;
// Share of positions in the padded layout that results use. Below kGathered, patches are gathered
// if there are kGatheredRows rows. Below kLeast, the padded layout is slower.
constexpr double kGathered = 0.8, kLeast = 0.2;
constexpr int64_t kGatheredRows = 64;
constexpr int64_t kGatheredImages = 16;  // at a time, each up to kPlaneBytes / 4
// Result positions below which a weight gradient has too little to sum.
constexpr int64_t kGradientPositions = 256;
// Limit of passes of a data gradient with strides; each pass reads the whole padded layout.
constexpr int64_t kMostPasses = 16;

SpatialValues divide_each_up(const SpatialValues& sizes, const SpatialValues& by) {
  SpatialValues result;
  for (int d = 0; d < 3; ++d) result[d] = divide_up(sizes[d], by[d]);
  return result;
}

bool suits(const at::Tensor& result, const at::Tensor& weight,
           const ConvolutionGeometry& geometry) {
  return device_properties(result.device().index()).kind == OB_DEVICE_CPU &&
         weight.is_floating_point() && volume(sizes_of(weight)) <= PaddedProgram::kTaps &&
         weight.size(0) / geometry.groups >= kRows &&
         std::max(span_elements(result), 2 * weight.numel()) <= kLargestPaddedIndex;
}

// Images packed at a time, 0 if a single one is too large.
int64_t images_at_a_time(const PaddedProgram& program, const PaddedLayout& layout,
                         const at::Tensor& source) {
  const int64_t images = source.size(0);
  const int64_t planes = source.size(1) * layout.phase_count();
  const int64_t image = planes * layout.positions();
  const int64_t some =
      std::clamp<int64_t>(kPlaneBytes / (image * program.value_bytes()), 1, images);
  const int64_t plane = layout.plane(some, program.tile_columns());
  at::DimVector sizes(source.sizes());
  sizes[0] = some;
  if (std::max(planes * plane, span_elements(sizes, source.strides())) > kLargestPaddedIndex)
    return 0;
  return divide_up(images, divide_up(images, some));  // equal batches
}

// True if patches are gathered: few padded positions are used by many rows, and the patches of one
// image fit the workspace.
bool gathers_patches(const PaddedProgram& program, double used, int64_t rows, int64_t channels,
                     int64_t taps, const SpatialValues& extent) {
  return used < kGathered && rows >= kGatheredRows &&
         channels * taps * volume(extent) * program.value_bytes() <= kPlaneBytes / 4;
}

double used_part(const PaddedLayout& layout, const SpatialValues& extent) {
  return static_cast<double>(volume(extent)) / static_cast<double>(layout.positions());
}

// The image of a convolution in the padded layout, as the taps of its kernel read it.
struct PaddedImage {
  TapPattern pattern;
  PaddedLayout layout;
  const PaddedProgram* program;
  bool gathers;
};

// nullopt where results use too small a share of the positions.
std::optional<PaddedImage> padded_image(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const SpatialValues extent = sizes_of(output);
  PaddedImage image = {};
  image.pattern = forward_taps(geometry, sizes_of(weight));
  image.layout.make_room(image.pattern, divide_each_up(sizes_of(input), geometry.stride), extent);
  const double used = used_part(image.layout, extent);
  if (used < kLeast) return std::nullopt;
  image.program = &PaddedProgram::find(weight.device().index(), weight.scalar_type());
  image.gathers = gathers_patches(*image.program, used, weight.size(0) / geometry.groups,
                                  input.size(1), image.pattern.taps(), extent);
  return image;
}

}  // namespace

bool write_output_from_padded(const ConvolutionPass& pass) {
  const auto& [geometry, input, weight, output, bias] = pass;
  if (!suits(output, weight, geometry)) return false;
  const SpatialValues extent = sizes_of(output);
  const auto image = padded_image(pass);
  if (!image) return false;
  const auto& [pattern, layout, found, gathers] = *image;
  const PaddedProgram& program = *found;
  int64_t at_a_time = images_at_a_time(program, layout, input);
  if (at_a_time == 0) return false;
  if (gathers) at_a_time = std::min(at_a_time, kGatheredImages);

  const at::Tensor dense = weight.contiguous();
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, false);
  const at::Tensor packed = program.pack_weights(dense, weights, pattern);
  for (int64_t begin = 0; begin < input.size(0); begin += at_a_time) {
    const int64_t images = std::min(at_a_time, input.size(0) - begin);
    const at::Tensor planes = program.pack_padded(input, begin, images, layout, pattern);
    const ResultLayout result{
        images, output.stride(0), output.stride(1), 0, spatial(output.strides(), 1), extent};
    program.multiply(weights, packed, layout, pattern, planes, gathers, result, bias,
                     mutable_element(output, begin * output.stride(0)));
  }
  return true;
}

bool write_input_from_padded(const ConvolutionPass& pass, PaddedGradient& cached) {
  const auto& [geometry, input, weight, output, bias] = pass;
  if (!suits(input, weight, geometry) || weight.size(1) < kRows ||
      volume(geometry.stride) > kMostPasses) {
    return false;
  }
  const SpatialValues kernel = sizes_of(weight);
  const SpatialValues sizes = sizes_of(input), content = sizes_of(output);
  std::vector<std::pair<SpatialValues, TapPattern>> passes;
  PaddedLayout layout;
  for_remainders(geometry, sizes, [&](const SpatialValues& remainder) {
    const TapPattern pattern = backward_taps(pass.geometry, kernel, remainder);
    layout.make_room(pattern, content, divide_each_up(sizes, pass.geometry.stride));
    passes.emplace_back(remainder, pattern);
  });
  const double used = used_part(layout, divide_each_up(sizes, geometry.stride));
  if (used < kLeast) return false;
  const auto& program = PaddedProgram::find(weight.device().index(), weight.scalar_type());
  const int64_t taps = volume(kernel);
  const bool gathers =
      gathers_patches(program, used, weight.size(1), output.size(1), taps, content);
  int64_t at_a_time = images_at_a_time(program, layout, output);
  if (at_a_time == 0) return false;
  if (gathers) at_a_time = std::min(at_a_time, kGatheredImages);

  const at::Tensor dense = weight.contiguous();
  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, true);
  std::vector<at::Tensor> packed;
  for (const auto& [first, pattern] : passes) {
    packed.push_back(program.pack_weights(dense, weights, pattern));
  }
  TapPattern all = {};
  all.step = {1, 1, 1};
  for (int64_t begin = 0; begin < output.size(0); begin += at_a_time) {
    const int64_t images = std::min(at_a_time, output.size(0) - begin);
    const at::Tensor planes = program.pack_padded(output, begin, images, layout, all);
    if (images == output.size(0)) cached = {planes, layout};
    for (size_t i = 0; i < passes.size(); ++i) {
      const auto& [first, pattern] = passes[i];
      ResultLayout result{images, input.stride(0), input.stride(1), 0, {}, {}};
      const SpatialValues strides = spatial(input.strides(), 1);
      for (int d = 0; d < 3; ++d) {
        result.stride[d] = strides[d] * geometry.stride[d];
        result.first += strides[d] * first[d];
        result.extent[d] = divide_up(sizes[d] - first[d], geometry.stride[d]);
      }
      program.multiply(weights, packed[i], layout, pattern, planes, gathers, result, bias,
                       mutable_element(input, begin * input.stride(0)));
    }
  }
  return true;
}

bool write_weight_from_padded(const ConvolutionPass& pass, const PaddedGradient& cached) {
  const auto& [geometry, input, weight, output, bias] = pass;
  const SpatialValues extent = sizes_of(output);
  if (!suits(input, weight, geometry) || output.size(0) * volume(extent) < kGradientPositions) {
    return false;
  }
  const auto image = padded_image(pass);
  // Patches that would be gathered are packed as fast by im2col.
  if (!image || image->gathers) return false;
  const auto& [pattern, layout, found, gathers] = *image;
  const PaddedProgram& program = *found;
  PaddedLayout gradient_layout;
  gradient_layout.grid = layout.grid;
  int64_t at_a_time = images_at_a_time(program, layout, input);
  const bool reuses = cached.planes.defined() && cached.layout.grid == gradient_layout.grid &&
                      at_a_time == input.size(0);
  if (reuses) {
    gradient_layout = cached.layout;
  } else {
    at_a_time = std::min(at_a_time, images_at_a_time(program, gradient_layout, output));
  }
  if (at_a_time == 0) return false;
  const int64_t parts = program.gradient_parts(gradient_layout, at_a_time);
  if (parts * weight.numel() > kLargestPaddedIndex) return false;

  const WeightLayout weights = WeightLayout::of(weight, geometry.groups, false);
  const bool direct = parts == 1 && weight.scalar_type() == program.value_dtype();
  const at::Tensor sums = direct ? weight : program.workspace(parts * weight.numel());
  TapPattern plain = {};
  plain.step = {1, 1, 1};
  for (int64_t begin = 0; begin < input.size(0); begin += at_a_time) {
    const int64_t images = std::min(at_a_time, input.size(0) - begin);
    const at::Tensor planes = program.pack_padded(input, begin, images, layout, pattern);
    const at::Tensor gradients =
        reuses ? cached.planes : program.pack_padded(output, begin, images, gradient_layout, plain);
    const GradientOperand ours = program.operand(gradients, gradient_layout, weights.rows, images);
    const GradientOperand met = program.operand(planes, layout, weights.channels, images);
    program.sum_gradients(weights, pattern, images, met, ours, begin > 0, sums);
  }
  if (!direct) program.sum_parts(sums, parts, weight);
  return true;
}

}  // namespace outboard
