#include "device_kernels/convolution/padded_program.h"

#include <algorithm>
#include <tuple>

#include "device_kernels/convolution/convolution_passes.h"
#include "device_kernels/product/product_program.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;

int64_t floor_divide(int64_t a, int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Elements of a cache line. Planes have an odd number of lines: powers of 2 share cache sets.
constexpr int64_t kLine = 16;

constexpr int64_t kDepth = 256;        // K packed by a work-item
constexpr int64_t kPanels = 8;         // panels of rows per work-item
constexpr int64_t kPositions = 2048;   // positions per part of a gradient
constexpr int64_t kBlock = 32;         // filters per work-item
constexpr int64_t kElementTiles = 16;  // tiles per work-item
constexpr int64_t kSlice = 1024;       // elements summed by a work-item
constexpr int64_t kItems = 8;          // work-items per processor, if there is enough work

// Same layout as in the kernel.
struct Gradient {
  int64_t groups, filters, channels, plane, gradient_group, group, positions, part, block, elements;
};

}  // namespace

PaddedLayout PaddedLayout::unpadded(const SpatialValues& extent) {
  PaddedLayout layout;
  layout.grid = extent;
  layout.reach = kLine;  // the last vector of a row reads beyond it
  return layout;
}

int64_t PaddedLayout::plane(int64_t images, int64_t width) const {
  const int64_t used = round_up(images * positions(), width);
  const int64_t lines = divide_up(lead + used + reach, kLine);
  return (lines | 1) * kLine;
}

void PaddedLayout::make_room(const TapPattern& pattern, const SpatialValues& content,
                             const SpatialValues& extent) {
  for (int d = 0; d < 3; ++d) {
    grid[d] = std::max({grid[d], content[d], extent[d]});
  }
  if (pattern.taps() == 0) return;
  for (int d = 0; d < 3; ++d) {
    const int64_t last = pattern.count[d] - 1;
    const int64_t one = floor_divide(pattern.offset[d], pattern.step[d]);
    const int64_t other =
        floor_divide(pattern.scale[d] * last + pattern.offset[d], pattern.step[d]);
    const int64_t before = std::max<int64_t>(0, -std::min(one, other));
    const int64_t behind = std::max<int64_t>(0, std::max(one, other));
    phases[d] = std::max(phases[d], std::min(pattern.count[d], pattern.cycle[d]));
    // The zeros after a row are also the zeros before the next one.
    grid[d] = std::max({grid[d], content[d] + before, extent[d] + behind});
    before_[d] = std::max(before_[d], before);
    behind_[d] = std::max(behind_[d], behind);
  }
  const auto distance = [&](const SpatialValues& by) {
    return (by[0] * grid[1] + by[1]) * grid[2] + by[2];
  };
  lead = distance(before_);
  reach = distance(behind_);
}

WeightLayout WeightLayout::of(const at::Tensor& weight, int64_t groups, bool backward) {
  WeightLayout layout;
  layout.groups = groups;
  layout.size = sizes_of(weight);
  const int64_t taps = volume(layout.size);
  const int64_t filters = weight.size(0) / groups, channels = weight.size(1);
  layout.rows = backward ? channels : filters;
  layout.channels = backward ? filters : channels;
  layout.row = backward ? taps : channels * taps;
  layout.channel = backward ? channels * taps : taps;
  layout.group = filters * channels * taps;
  return layout;
}

// 32 registers of 64 bytes, or 16 of other sizes.
PaddedProgram::Tiles PaddedProgram::tiles(c10::DeviceIndex device) {
  return work_shape(device).vector_bytes == 64 ? Tiles{8, 3, 4, 6} : Tiles{4, 3, 3, 4};
}

PaddedProgram::PaddedProgram(c10::DeviceIndex device, ScalarType dtype)
    : device_(device),
      value_(outboard::value_dtype(dtype)),
      tiles_(tiles(device)),
      width_(work_shape(device).width(static_cast<int>(c10::elementSize(value_)))),
      columns_(tiles_.vectors * width_),
      processors_(std::max<int64_t>(device_properties(device).compute_units, 1)),
      kernels_(device,
               product_source(dtype, value_, width_, /*wide=*/false,
                              define("ROWS", tiles_.rows) + define("COLUMNS", columns_) +
                                  define("FILTERS", tiles_.filters) +
                                  define("ELEMENTS", tiles_.elements) + define("PANELS", kPanels) +
                                  define("TAPS", kTaps) + define("SLICE", kSlice),
                              "padded"),
               literal_options(value_)) {}

const PaddedProgram& PaddedProgram::find(c10::DeviceIndex device, ScalarType dtype) {
  using Key = std::tuple<c10::DeviceIndex, ScalarType>;
  static auto* programs = new KernelTable<Key, const PaddedProgram*>;
  return *programs->find({device, dtype}, [&] { return new PaddedProgram(device, dtype); });
}

PaddedSizes PaddedProgram::sizes(const PaddedLayout& layout, int64_t images) const {
  return {layout.phases, layout.grid, layout.lead, layout.plane(images, columns_)};
}

void PaddedProgram::enqueue(const char* kernel, int64_t items, LaunchArguments& arguments) const {
  add_narrow(arguments, items);
  kernels_.launch(kernel, items, 1, arguments);
}

at::Tensor PaddedProgram::pack_padded(const at::Tensor& source, int64_t begin, int64_t count,
                                      const PaddedLayout& layout, const TapPattern& pattern) const {
  const int64_t planes = source.size(1) * layout.phase_count();
  const int64_t plane = layout.plane(count, columns_);
  at::Tensor packed = workspace(planes * plane + columns_);
  LaunchArguments arguments;
  arguments.address(element(source, begin * source.stride(0))).address(packed.mutable_data_ptr());
  PaddedSource described(source, count);
  std::tie(described.scale, described.offset, described.step) =
      std::tie(pattern.scale, pattern.offset, pattern.step);
  add_narrow(arguments, described, sizes(layout, count));
  enqueue("pack_padded", planes * count, arguments);
  return packed;
}

at::Tensor PaddedProgram::pack_weights(const at::Tensor& weight, const WeightLayout& layout,
                                       const TapPattern& pattern) const {
  const int64_t panels = divide_up(layout.rows, tiles_.rows);
  const int64_t taps = pattern.taps();
  at::Tensor packed = workspace(
      std::max<int64_t>(layout.groups * panels * tiles_.rows * layout.channels * taps, 1));
  if (taps == 0) return packed;
  const int64_t slice = std::max<int64_t>(kDepth / taps, 1);
  LaunchArguments arguments;
  arguments.address(weight.const_data_ptr()).address(packed.mutable_data_ptr());
  add_narrow(arguments, PaddedWeights{layout, pattern.count, pattern.first, pattern.each}, slice);
  enqueue("pack_weights", layout.groups * panels * divide_up(layout.channels, slice), arguments);
  return packed;
}

int64_t PaddedProgram::panels_of_item(int64_t tiles) const {
  return std::clamp<int64_t>(tiles / (processors_ * kItems), 1, kPanels);
}

void PaddedProgram::multiply(const WeightLayout& weights, const at::Tensor& packed,
                             const PaddedLayout& layout, const TapPattern& pattern,
                             const at::Tensor& planes, bool gathers, const ResultLayout& result,
                             const at::Tensor& bias, void* out) const {
  const int64_t taps = pattern.taps();
  const SpatialValues& grid = gathers ? result.extent : layout.grid;
  const int64_t count = result.images * grid[0] * grid[1] * grid[2];
  const PaddedSizes planes_of = sizes(layout, result.images);
  const PaddedResult columns{weights.groups, weights.rows,  weights.channels, count,
                             grid,           result.extent, result.image,     result.row,
                             result.first,   result.stride};
  const int64_t column_panels = divide_up(count, columns_);
  at::Tensor right = planes;
  if (gathers && taps > 0) {
    right = workspace(weights.groups * column_panels * columns_ * weights.channels * taps);
    const int64_t slice = std::max<int64_t>(kDepth / taps, 1);
    LaunchArguments arguments;
    arguments.address(planes.const_data_ptr()).address(right.mutable_data_ptr());
    add_narrow(arguments, planes_of, pattern.of_kernels(), columns, slice);
    enqueue("gather_patches", weights.groups * column_panels * divide_up(weights.channels, slice),
            arguments);
  }
  const int64_t row_panels = divide_up(weights.rows, tiles_.rows);
  const int64_t panels = panels_of_item(weights.groups * column_panels * row_panels);
  LaunchArguments arguments;
  arguments.address(packed.const_data_ptr()).address(right.const_data_ptr()).address(out);
  arguments.address(bias.defined() ? bias.const_data_ptr() : out);
  add_narrow(arguments, planes_of, pattern.of_kernels(), columns,
             bias.defined() ? bias.stride(0) : 0, bias.defined(), gathers, panels);
  enqueue("padded_tiles", weights.groups * column_panels * divide_up(row_panels, panels),
          arguments);
}

int64_t PaddedProgram::gradient_part(const PaddedLayout& layout, int64_t images) const {
  const int64_t positions = round_up(images * layout.positions(), width_);
  return round_up(divide_up(positions, divide_up(positions, kPositions)), width_);
}

int64_t PaddedProgram::gradient_parts(const PaddedLayout& layout, int64_t images) const {
  return divide_up(images * layout.positions(), gradient_part(layout, images));
}

GradientOperand PaddedProgram::operand(const at::Tensor& planes, const PaddedLayout& layout,
                                       int64_t channels, int64_t images) const {
  return {planes, layout, channels * layout.phase_count() * layout.plane(images, columns_)};
}

void PaddedProgram::sum_gradients(const WeightLayout& weights, const TapPattern& pattern,
                                  int64_t images, const GradientOperand& planes,
                                  const GradientOperand& gradients, bool adds,
                                  const at::Tensor& sums) const {
  const PaddedLayout& layout = planes.layout;
  const PaddedLayout& gradient_layout = gradients.layout;
  const int64_t positions = round_up(images * gradient_layout.positions(), width_);
  const int64_t part = gradient_part(gradient_layout, images);
  const int64_t all = weights.channels * pattern.taps();
  const int64_t blocks = divide_up(weights.rows, kBlock);
  const int64_t elements = std::min(kElementTiles * tiles_.elements, all);
  LaunchArguments arguments;
  const auto* first_gradient = static_cast<const char*>(gradients.planes.const_data_ptr()) +
                               gradient_layout.lead * value_bytes();
  arguments.address(first_gradient).address(planes.planes.const_data_ptr());
  arguments.address(sums.mutable_data_ptr());
  add_narrow(arguments, sizes(layout, images), pattern.of_kernels(),
             Gradient{weights.groups, weights.rows, weights.channels,
                      gradient_layout.plane(images, columns_), gradients.group, planes.group,
                      positions, part, kBlock, elements},
             adds);
  enqueue("padded_gradients",
          weights.groups * divide_up(positions, part) * divide_up(all, elements) * blocks,
          arguments);
}

void PaddedProgram::sum_parts(const at::Tensor& sums, int64_t parts, const at::Tensor& out) const {
  LaunchArguments arguments;
  arguments.address(sums.const_data_ptr()).address(out.mutable_data_ptr());
  add_narrow(arguments, parts, out.numel());
  enqueue("sum_parts", divide_up(out.numel(), kSlice), arguments);
}

}  // namespace outboard
