#include "device_kernels/product/product_program.h"

#include <algorithm>
#include <tuple>

#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;

constexpr int64_t kSlice = 8192;  // elements per slice of a long row

// CPU: the sums of a tile and the operands of a step fill the vector registers, 16, or 32 of 64
// bytes. With one row more, compilers spill sums in each step, which halves the speed. GPU: many
// small tiles.
constexpr ProductBlocks kCpuBlocks = {5, 2, 8};
constexpr ProductBlocks kWideCpuBlocks = {12, 2, 8};
constexpr ProductBlocks kGpuBlocks = {4, 1, 1};

// Left operand: each tile reads a few elements at each step along K. If its rows are dense, these
// are sequential streams: packing pays only for many columns. Otherwise each step reads another
// cache line: packing pays if panels of columns after the first read many elements again, or if a
// cache cannot hold the lines of a panel of rows.
constexpr int64_t kColumns = 1024;
constexpr int64_t kReadAgain = 3 << 18;
constexpr int64_t kLeftSteps = 1024;

// Right operand: each step reads another cache line. Up to kFewPanels panels of rows read it no
// more often than packing would. More panels need it in the L2 cache. Many panels also need steps
// shorter than a page, because lines that are pages apart share cache sets, and few steps.
constexpr int64_t kFewPanels = 2;
constexpr int64_t kManyPanels = 8;
constexpr int64_t kCachedBytes = int64_t{1} << 20;
constexpr int64_t kPageBytes = 4096;
constexpr int64_t kRightSteps = 512;

// Panels of lines with stride `line`; there are at least as many lines as in a panel.
TileStrides strides_of_panels(int64_t batch, int64_t lines, int64_t panel, int64_t line,
                              int64_t step) {
  return {batch, panel * line, line, step, round_up(lines, panel) - lines};
}

struct TileSize {
  int64_t rows, columns;
};

// `lines` lines packed in panels of `panel`.
TileStrides packed_strides(int64_t depth, int64_t lines, int64_t panel) {
  return {round_up(lines, panel) * depth, panel * depth, 1, panel, 0};
}

// In place, on CPUs; nullopt if the operand must be packed or packing is faster.
std::optional<TileStrides> left_in_place(const ProductLayout& layout, const TileSize& tile) {
  const ProductStrides& left = layout.left;
  if (layout.inner_depth < layout.depth || layout.rows < tile.rows) return std::nullopt;
  const int64_t again = (divide_up(layout.columns, tile.columns) - 1) * layout.rows * layout.depth;
  const bool dense = left.column <= 1;
  if (dense ? layout.columns > kColumns && again > kReadAgain
            : again > kReadAgain || (again > 0 && layout.depth > kLeftSteps)) {
    return std::nullopt;
  }
  return strides_of_panels(left.batch, layout.rows, tile.rows, left.row, left.column);
}

// `bytes`: of an element.
std::optional<TileStrides> right_in_place(const ProductLayout& layout, const TileSize& tile,
                                          int64_t bytes) {
  const ProductStrides& right = layout.right;
  if (layout.inner_depth < layout.depth || layout.columns < tile.columns || right.column != 1) {
    return std::nullopt;
  }
  const int64_t panels = divide_up(layout.rows, tile.rows);
  const int64_t step = right.row * bytes;
  if (panels > kFewPanels && layout.depth * step > kCachedBytes) return std::nullopt;
  if (panels > kManyPanels && (step >= kPageBytes || layout.depth > kRightSteps)) {
    return std::nullopt;
  }
  return strides_of_panels(right.batch, layout.columns, tile.columns, 1, right.row);
}

ProductBlocks product_blocks(c10::DeviceIndex device) {
  if (device_properties(device).kind != OB_DEVICE_CPU) return kGpuBlocks;
  return work_shape(device).vector_bytes == 64 ? kWideCpuBlocks : kCpuBlocks;
}

}  // namespace

std::string define(const char* name, int64_t number) {
  return std::string("#define ") + name + " " + std::to_string(number) + "\n";
}

ScalarType product_value_dtype(ScalarType dtype) {
  if (at::isIntegralType(dtype, /*includeBool=*/false) && c10::elementSize(dtype) < 4) {
    return ScalarType::Int;  // truncation to the dtype gives the same result
  }
  return value_dtype(dtype);
}

std::string product_source(ScalarType dtype, ScalarType compute, int width, bool wide,
                           const std::string& macros, const char* kernels) {
  return write_source({"product",
                       {{"dtype", dtype},
                        {"compute", compute},
                        {"width", width},
                        {"wide", wide},
                        {"definitions", macros},
                        {"kernels", std::string(kernels)}}});
}

ProductProgram::Portions ProductProgram::portions(c10::DeviceIndex device) {
  const int largest = work_shape(device).local;
  if (device_properties(device).kind == OB_DEVICE_CPU) return {256, 1, int64_t{4} << 20};
  return {16, std::min(64, largest), int64_t{128} << 20};
}

ProductProgram::ProductProgram(c10::DeviceIndex device, ScalarType dtype, bool wide, bool patches)
    : device_(device),
      value_(product_value_dtype(dtype)),
      in_place_(device_properties(device).kind == OB_DEVICE_CPU && value_ == dtype),
      wide_(wide),
      portions_(portions(device)),
      blocks_(product_blocks(device)),
      width_(work_shape(device).width(static_cast<int>(c10::elementSize(value_)))),
      columns_(blocks_.vectors * width_),
      kernels_(
          device,
          product_source(dtype, value_, width_, wide,
                         define("ROWS", blocks_.rows) + define("VECTORS", blocks_.vectors) +
                             define("PANELS", blocks_.panels) + define("SLICE", portions_.slice) +
                             (in_place_ ? "#define IN_PLACE\n" : ""),
                         patches ? "patches" : "matrix_product"),
          literal_options(value_)) {}

const ProductProgram& ProductProgram::find(c10::DeviceIndex device, ScalarType dtype, bool wide,
                                           bool patches) {
  using Key = std::tuple<c10::DeviceIndex, ScalarType, bool, bool>;
  static auto* programs = new KernelTable<Key, const ProductProgram*>;
  return *programs->find({device, dtype, wide, patches},
                         [&] { return new ProductProgram(device, dtype, wide, patches); });
}

void ProductProgram::enqueue(const char* kernel, int64_t items, bool coarse,
                             LaunchArguments& arguments) const {
  add_layout(arguments, items);
  if (items == 0) return;
  kernels_.launch(kernel, items, coarse ? portions_.local : work_shape(device_).local, arguments);
}

int64_t ProductProgram::columns_at_a_time(const ProductLayout& layout) const {
  const int64_t column_bytes = std::max<int64_t>(layout.depth, 1) * layout.batches *
                               static_cast<int64_t>(c10::elementSize(value_));
  const int64_t fitting = portions_.packed_bytes / column_bytes / columns_ * columns_;
  // Fewer columns would leave processors idle.
  return std::clamp<int64_t>(fitting, columns_ * 16, round_up(layout.columns, columns_));
}

at::Tensor ProductProgram::pack(const char* kernel, const ProductLayout& layout, int64_t lines,
                                int64_t panel, const void* operand) const {
  const int64_t panels = divide_up(lines, panel);
  at::Tensor packed = workspace(layout.batches * panels * panel * layout.depth);
  LaunchArguments arguments;
  arguments.address(operand).address(packed.mutable_data_ptr());
  add_layout(arguments, layout);
  enqueue(kernel, layout.batches * panels * slices(layout.depth), true, arguments);
  return packed;
}

TileOperand ProductProgram::left_operand(const ProductLayout& layout, const void* left) const {
  const TileSize tile = {blocks_.rows, columns_};
  const auto strides = in_place_ ? left_in_place(layout, tile) : std::nullopt;
  if (strides) return {left, *strides, {}};
  const at::Tensor packed = pack("pack_left", layout, layout.rows, blocks_.rows, left);
  return {packed.const_data_ptr(), packed_strides(layout.depth, layout.rows, blocks_.rows), packed};
}

TileOperand ProductProgram::right_operand(const ProductLayout& layout, const void* right) const {
  const TileSize tile = {blocks_.rows, columns_};
  const auto bytes = static_cast<int64_t>(c10::elementSize(value_));
  const auto strides = in_place_ ? right_in_place(layout, tile, bytes) : std::nullopt;
  if (strides) return {right, *strides, {}};
  return packed_right(pack("pack_right", layout, layout.columns, columns_, right), layout.depth,
                      layout.columns);
}

TileOperand ProductProgram::packed_right(const at::Tensor& packed, int64_t depth,
                                         int64_t columns) const {
  return {packed.const_data_ptr(), packed_strides(depth, columns, columns_), packed};
}

void ProductProgram::add_operands(LaunchArguments& arguments, const ProductLayout& layout,
                                  const ProductScalars& scalars,
                                  const ProductAddresses& addresses) const {
  arguments.address(addresses.left).address(addresses.right).address(addresses.out);
  arguments.address(scalars.adds ? addresses.added : addresses.out);
  add_layout(arguments, layout);
  add_scalar(arguments, scalars.alpha, value_);
  add_scalar(arguments, scalars.adds ? scalars.beta : at::Scalar(0), value_);
  arguments.value(static_cast<int32_t>(scalars.adds));
}

void ProductProgram::multiply(const ProductLayout& layout, const ProductScalars& scalars,
                              const TileOperand& left, const TileOperand& right, void* out,
                              const void* added, int64_t begin, int64_t count) const {
  const int64_t row_panels = divide_up(layout.rows, blocks_.rows);
  const int64_t column_panels = divide_up(count, columns_);
  LaunchArguments arguments;
  add_operands(arguments, layout, scalars, {left.address, right.address, out, added});
  add_layout(arguments, begin);
  add_layout(arguments, count);
  add_layout(arguments, left.strides);
  add_layout(arguments, right.strides);
  const int64_t groups = divide_up(row_panels, blocks_.panels);
  enqueue("tiles", layout.batches * column_panels * groups, true, arguments);
}

void ProductProgram::multiply_rows(const ProductLayout& layout, const ProductScalars& scalars,
                                   const ProductAddresses& addresses) const {
  LaunchArguments arguments;
  add_operands(arguments, layout, scalars, addresses);
  enqueue("row_vectors", layout.batches * layout.rows * divide_up(layout.columns, width_), false,
          arguments);
}

void ProductProgram::multiply_single(const ProductLayout& layout, const ProductScalars& scalars,
                                     const ProductAddresses& addresses) const {
  LaunchArguments arguments;
  add_operands(arguments, layout, scalars, addresses);
  enqueue("single", layout.batches * layout.rows * layout.columns, false, arguments);
}

void ProductProgram::multiply_slices(const ProductLayout& layout,
                                     const ProductAddresses& addresses) const {
  const int64_t count = divide_up(layout.depth, kSlice);
  const at::Tensor partials = workspace(count);
  LaunchArguments first;
  first.address(addresses.left).address(addresses.right).address(partials.mutable_data_ptr());
  add_layout(first, layout);
  add_layout(first, kSlice);
  enqueue("slices", count, true, first);
  LaunchArguments second;
  second.address(partials.const_data_ptr()).address(addresses.out);
  add_layout(second, count);
  enqueue("sum_slices", 1, true, second);
}

bool needs_wide_index(const ProductLayout& layout) {
  constexpr int64_t kLargest = (int64_t{1} << 31) - 4096;  // stays below 2^31 when rounded up
  const auto extent = [&](const ProductStrides& s, int64_t rows, int64_t columns) {
    // An upper bound also for two levels: both strides in full.
    return layout.batches * s.batch + rows * s.row + columns * s.column +
           std::max(layout.depth, layout.columns) * s.outer;
  };
  constexpr int64_t kMargin = 64;  // lines that pad tiles
  const int64_t packed =
      layout.batches * (layout.depth + 1) * (std::max(layout.rows, layout.columns) + kMargin);
  return std::max({extent(layout.left, layout.rows, layout.depth),
                   extent(layout.right, layout.depth, layout.columns),
                   extent(layout.out, layout.rows, layout.columns),
                   extent(layout.added, layout.rows, layout.columns), packed,
                   layout.batches * layout.rows * layout.columns}) > kLargest;
}

}  // namespace outboard
