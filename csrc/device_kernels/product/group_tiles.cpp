#include "device_kernels/product/group_tiles.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <limits>
#include <tuple>

#include "device_kernels/kernel_types.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

using at::ScalarType;

// Work-groups are squares of work-items.
constexpr int kSides[] = {16, 8};
constexpr int kVectorBytes = 16;  // read from local memory at once

constexpr int64_t kMostParts = 64;
constexpr int64_t kDeepest = 64;  // largest slice; parts of K are multiples of it
// Costs of split K, in multiplications of a compute unit: a partial sum, which is written and read,
// costs kSumCost; the second launch costs as much as kLaunchSums sums.
constexpr int64_t kSumCost = 55, kUnitSumCost = 700;
constexpr int64_t kLaunchSums = 9000;

// Thin products: work-items that read adjacent elements along K, or columns. Convolutions with few
// results: results per group. Same values as in the kernels.
constexpr int64_t kTogether = 32;
constexpr int64_t kResults = 5;
// Convolutions with up to this many rows, such as depthwise ones, use no tiles.
constexpr int64_t kFewRows = 4;
// Such groups per compute unit at a time, and the least elements of a part per work-item.
constexpr int64_t kFewAtOnce = 8;
constexpr int64_t kFewDepth = 8;

// Same layout as in the kernels.
struct GroupStrides {
  int64_t batch, row, column;
};
struct GroupLayout {
  int64_t batches, rows, columns, depth;
  GroupStrides left, right, out, added;
  int64_t parts, part;
  int64_t left_access, right_access;
};

GroupStrides strides(const ProductStrides& s) { return {s.batch, s.row, s.column}; }

// Access of an operand with these strides of lines and of K; a single line has stride 0.
int64_t operand_access(const void* address, int64_t bytes, int64_t batch, int64_t line,
                       int64_t depth) {
  const bool along = line == 0 || (depth != 0 && depth < line);
  const auto aligned = [&](int64_t count) { return count * bytes % kVectorBytes == 0; };
  const bool dense = along ? depth == 1 && aligned(line) : line == 1 && aligned(depth);
  const bool vectors =
      dense && aligned(batch) && reinterpret_cast<uintptr_t>(address) % kVectorBytes == 0;
  return (along ? GroupTiles::kAlongDepth : 0) + (vectors ? GroupTiles::kVectors : 0);
}

// Vectors of rows and of columns summed by a work-item, and the depth of a slice.
struct ItemTile {
  int row_vectors, column_vectors, depth;
  int registers, at_once, speed;
};
constexpr ItemTile kItemTiles[] = {
    {2, 2, 8, 128, 2, 100}, {2, 1, 8, 80, 3, 80}, {1, 2, 8, 80, 3, 80}, {1, 1, 16, 64, 4, 60}};

GroupTiles::Tile item_tile(const ItemTile& tile, int side, int width) {
  return {side * tile.row_vectors * width,
          side * tile.column_vectors * width,
          side * side,
          tile.registers,
          tile.at_once,
          tile.speed,
          define("ROW_VECTORS", tile.row_vectors) + define("COLUMN_VECTORS", tile.column_vectors) +
              define("DEPTH", tile.depth)};
}

// `depth`: of a slice; `down`, `across`: warps of a group; `stages`: slices in local memory. A
// warpgroup is four warps, one below the other. Speeds: a product of 4096 x 4096 x 4096 on an H100.
// Tiles without warpgroups use less than 48 KiB, NVIDIA's OpenCL limit without them.
struct UnitTile {
  int rows, columns, depth, down, across, stages;
  int registers, at_once, speed;
};
constexpr UnitTile kUnitTiles[] = {{128, 128, 32, 2, 2, 2, 255, 2, 100},
                                   {128, 64, 32, 2, 2, 3, 168, 3, 80},
                                   {64, 128, 32, 2, 2, 3, 168, 3, 80},
                                   {64, 64, 32, 2, 2, 3, 128, 4, 70}};
constexpr UnitTile kWarpgroupTiles[] = {{256, 128, 64, 16, 1, 4, 128, 1, 100},
                                        {128, 128, 64, 8, 1, 3, 128, 2, 91},
                                        {64, 128, 64, 4, 1, 4, 128, 2, 73},
                                        {64, 64, 64, 4, 1, 4, 128, 3, 56}};
constexpr int kWarp = 32;
constexpr int kUnitItems = 512;  // of the largest tile

GroupTiles::Tile unit_tile(const UnitTile& tile, bool warpgroups) {
  const int items = tile.down * tile.across * kWarp;
  std::string macros = define("UNIT_ROWS", tile.rows) + define("UNIT_COLUMNS", tile.columns) +
                       define("UNIT_DEPTH", tile.depth) + define("WARPS_DOWN", tile.down) +
                       define("WARPS_ACROSS", tile.across) + define("STAGES", tile.stages) +
                       define("UNIT_ITEMS", items) +
                       // For kernels without shared tiles.
                       define("ROW_VECTORS", 1) + define("COLUMN_VECTORS", 1) + define("DEPTH", 32);
  if (warpgroups) macros += define("WARPGROUPS", 1);
  return {tile.rows, tile.columns, items, tile.registers, tile.at_once, tile.speed, macros};
}

bool has(c10::DeviceIndex device, uint32_t feature) {
  return (device_properties(device).features & feature) != 0;
}

// Small integers: products and sums are exact.
at::Tensor integers(int64_t size, int64_t step, ScalarType dtype) {
  const at::Tensor numbers = at::arange(size * size).mul(step).remainder(7).sub(3);
  return numbers.view({size, size}).to(dtype);
}

bool multiplies_right(c10::DeviceIndex device, ScalarType dtype) {
  constexpr int64_t kSize = 72;  // more than a tile
  const at::Tensor left = integers(kSize, 5, dtype), right = integers(kSize, 11, dtype);
  const at::Device there(c10::DeviceType::PrivateUse1, device);
  const at::Tensor a = left.to(there), b = right.to(there), out = at::empty_like(a);
  ProductLayout layout;
  layout.rows = layout.columns = layout.depth = layout.inner_depth = layout.inner_columns = kSize;
  layout.left = layout.right = layout.out = {0, kSize, 1, 0};
  // Never destroyed: the kernel tables use its address as a key.
  const auto& tiles = *new GroupTiles(device, dtype, /*wide=*/false, /*side=*/16, /*units=*/true);
  tiles.multiply(layout, {},
                 {a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), nullptr});
  return out.cpu().to(at::kFloat).equal(at::mm(left.to(at::kFloat), right.to(at::kFloat)));
}

}  // namespace

const GroupTiles* GroupTiles::find(c10::DeviceIndex device, ScalarType dtype, bool wide) {
  if (device_properties(device).kind != OB_DEVICE_GPU) return nullptr;
  const int largest = work_shape(device).local;
  const auto* side = std::find_if(std::begin(kSides), std::end(kSides),
                                  [&](int side) { return side * side <= largest; });
  if (side == std::end(kSides)) return nullptr;
  using Key = std::tuple<c10::DeviceIndex, ScalarType, bool>;
  static auto* programs = new KernelTable<Key, const GroupTiles*>;
  return programs->find({device, dtype, wide}, [&] {
    return new GroupTiles(device, dtype, wide, *side, uses_matrix_units(device, dtype));
  });
}

GroupTiles::GroupTiles(c10::DeviceIndex device, ScalarType dtype, bool wide, int side, bool units)
    : device_(device),
      dtype_(dtype),
      value_(product_value_dtype(dtype)),
      wide_(wide),
      side_(side),
      units_(units),
      width_(kVectorBytes / static_cast<int>(c10::elementSize(value_))),
      compute_units_(std::max<int64_t>(device_properties(device).compute_units, 1)) {
  if (units) {
    const bool warpgroups = has(device, OB_FEATURE_WARPGROUPS);
    for (const UnitTile& tile : warpgroups ? kWarpgroupTiles : kUnitTiles) {
      tiles_.push_back(unit_tile(tile, warpgroups));
    }
    return;
  }
  for (const ItemTile& tile : kItemTiles) {
    tiles_.push_back(item_tile(tile, side, width_));
    // Wide values fill registers sooner, and their vectors have half the elements.
    if (c10::elementSize(value_) > 4) return;
  }
}

int64_t GroupTiles::tiles_of(const ProductLayout& layout, const Tile& tile) const {
  return layout.batches * divide_up(layout.rows, tile.rows) *
         divide_up(layout.columns, tile.columns);
}

// The fastest plan of a cost model: compute units run `at_once` groups per turn. A turn computes
// whole tiles, including the part beyond the result, at the tile's speed.
GroupTiles::Plan GroupTiles::plan(const ProductLayout& layout) const {
  const int64_t sum_cost = units_ ? kUnitSumCost : kSumCost;
  const Tile* best = nullptr;
  int64_t best_parts = 1, best_time = std::numeric_limits<int64_t>::max();
  for (const Tile& tile : tiles_) {
    const int64_t tiles = std::max<int64_t>(tiles_of(layout, tile), 1);
    const int64_t most = std::clamp<int64_t>(layout.depth / (2 * kDeepest), 1, kMostParts);
    const int64_t slots = compute_units_ * tile.at_once;
    // The most parts that fit into one turn or two; other numbers leave compute units idle.
    for (const int64_t fitting : {int64_t{1}, slots / tiles, 2 * slots / tiles}) {
      const int64_t parts = std::clamp<int64_t>(fitting, 1, most);
      const int64_t turns = divide_up(tiles * parts, slots);
      const int64_t depth = round_up(divide_up(layout.depth, parts), kDeepest);
      int64_t time = turns * tile.at_once * tile.rows * tile.columns * depth / tile.speed * 100;
      if (parts > 1) {
        const int64_t sums = layout.batches * layout.rows * layout.columns * parts;
        time += (sums / compute_units_ + kLaunchSums) * sum_cost;
      }
      if (time < best_time) best = &tile, best_parts = parts, best_time = time;
      if (parts == most) break;
    }
  }
  const int64_t part =
      std::max<int64_t>(divide_up(divide_up(layout.depth, best_parts), kDeepest), 1) * kDeepest;
  return {*best, std::max<int64_t>(divide_up(layout.depth, part), 1), part};
}

const ProgramKernels& GroupTiles::kernels(const Tile& tile, const Work& work) const {
  using Key = std::tuple<const void*, const void*, bool, int64_t, int64_t>;
  static auto* table = new KernelTable<Key, ProgramKernels>;
  const bool image = work.image != nullptr;
  const Access access = units_ ? work.access : Access{-1, -1};  // -1: passed at launch
  const Key key{this, &tile, image, access.left, access.right};
  return table->find(key, [&] {
    std::string macros = define("ACROSS", side_) + define("DOWN", side_) + tile.definitions;
    if (units_) {
      macros += dtype_ == ScalarType::Half
                    ? "#define MATRIX_UNITS \"f16\"\n"
                    : "#define MATRIX_UNITS \"bf16\"\n#define UNIT_BFLOAT16\n";
      macros += define("LEFT_ACCESS", static_cast<int>(access.left)) +
                define("RIGHT_ACCESS", static_cast<int>(access.right));
    }
    if (image) macros += "#define IMAGE\n";
    // For drivers that can pass a register limit to their compiler.
    return ProgramKernels(device_,
                          product_source(dtype_, value_, width_, wide_, macros, "group_tiles"),
                          c10::str(literal_options(value_), " -DOB_REGISTERS=", tile.registers));
  });
}

int64_t GroupTiles::vectors(const ProductLayout& layout) const {
  return layout.batches * layout.rows * divide_up(layout.columns, width_);
}

GroupTiles::Access GroupTiles::access_of(const ProductLayout& layout,
                                         const ProductAddresses& addresses) const {
  const auto bytes = static_cast<int64_t>(c10::elementSize(dtype_));
  const auto& [left, right] = std::tie(layout.left, layout.right);
  return {operand_access(addresses.left, bytes, left.batch, left.row, left.column),
          operand_access(addresses.right, bytes, right.batch, right.column, right.row)};
}

void GroupTiles::multiply(const ProductLayout& layout, const ProductScalars& scalars,
                          const ProductAddresses& addresses) const {
  enqueue_tiles({layout, nullptr, access_of(layout, addresses), scalars, addresses});
}

void GroupTiles::multiply_thin(const ProductLayout& layout, const ProductScalars& scalars,
                               const ProductAddresses& addresses) const {
  const Access access = access_of(layout, addresses);
  // Same partition of a group as in the kernel.
  const int64_t lines = (access.left & kAlongDepth) != 0 ? side_ * side_ / kTogether : kTogether;
  enqueue_few({layout, nullptr, access, scalars, addresses},
              layout.batches * layout.columns * divide_up(layout.rows, lines));
}

void GroupTiles::convolve(const ProductLayout& layout, const ImageOperand& image,
                          const Access& access, const ProductScalars& scalars,
                          const ProductAddresses& addresses) const {
  const Work work = {layout, &image, access, scalars, addresses};
  if (layout.rows > kFewRows) {
    enqueue_tiles(work);
  } else if (layout.depth > layout.columns) {
    enqueue_few(work, layout.batches * layout.rows * divide_up(layout.columns, kResults));
  } else {
    enqueue_rows(work);
  }
}

void GroupTiles::enqueue_tiles(const Work& work) const {
  const ProductLayout& layout = work.layout;
  const Plan plan = this->plan(layout);
  enqueue_parts(work, "group_tiles", plan, tiles_of(layout, plan.tile), plan.tile.items);
}

void GroupTiles::enqueue_few(const Work& work, int64_t groups) const {
  const int64_t depth = work.layout.depth;
  const int64_t least = side_ * side_ * kFewDepth;
  const int64_t parts = std::clamp<int64_t>(compute_units_ * kFewAtOnce / groups, 1,
                                            std::max<int64_t>(depth / least, 1));
  const int64_t part = std::max<int64_t>(divide_up(depth, parts), 1);
  enqueue_parts(work, work.image != nullptr ? "few_results" : "thin_products",
                {tiles_.back(), std::max<int64_t>(divide_up(depth, part), 1), part}, groups,
                side_ * side_);
}

void GroupTiles::enqueue_rows(const Work& work) const {
  const int64_t count = vectors(work.layout);
  enqueue(work, "single_rows", {tiles_.back(), 1, work.layout.depth}, work.addresses.out, count,
          work_shape(device_).local, count);
}

void GroupTiles::enqueue_parts(const Work& work, const char* kernel, const Plan& plan,
                               int64_t groups, int64_t local) const {
  const int64_t count = vectors(work.layout);
  at::Tensor partials;
  if (plan.parts > 1) partials = empty_on(device_, {plan.parts * count * width_}, value_);
  const void* sums = plan.parts > 1 ? partials.const_data_ptr() : work.addresses.out;
  groups *= plan.parts;
  enqueue(work, kernel, plan, sums, groups, local, groups * local);
  if (plan.parts == 1) return;
  enqueue(work, "add_parts", plan, sums, count, work_shape(device_).local, count);
}

void GroupTiles::enqueue(const Work& work, const char* kernel, const Plan& plan,
                         const void* partials, int64_t count, int64_t local, int64_t items) const {
  const ProductLayout& layout = work.layout;
  const GroupLayout described = {layout.batches,      layout.rows,           layout.columns,
                                 layout.depth,        strides(layout.left),  strides(layout.right),
                                 strides(layout.out), strides(layout.added), plan.parts,
                                 plan.part,           work.access.left,      work.access.right};
  const ProductScalars& scalars = work.scalars;
  LaunchArguments arguments;
  arguments.address(work.addresses.left).address(work.addresses.right).address(work.addresses.out);
  arguments.address(scalars.adds ? work.addresses.added : work.addresses.out).address(partials);
  add_layout(arguments, described, wide_);
  add_scalar(arguments, scalars.alpha, value_);
  add_scalar(arguments, scalars.adds ? scalars.beta : at::Scalar(0), value_);
  arguments.value(static_cast<int32_t>(scalars.adds));
  if (work.image != nullptr) add_layout(arguments, *work.image, /*wide=*/false);
  add_layout(arguments, count, wide_);
  kernels(plan.tile, work).launch(kernel, items, local, arguments);
}

bool uses_matrix_units(c10::DeviceIndex device, ScalarType dtype) {
  if ((dtype != ScalarType::Half && dtype != ScalarType::BFloat16) ||
      !has(device, OB_FEATURE_MATRIX_UNITS) ||
      device_properties(device).max_work_group_size < kUnitItems) {
    return false;
  }
  // Graph capture cannot wait for a result.
  if (current_stream_state(device).capturing.load()) return true;
  static auto* found = new KernelTable<std::tuple<c10::DeviceIndex, ScalarType>, bool>;
  return found->find({device, dtype}, [&] {
    std::string reason = "a small product was wrong";
    try {
      if (multiplies_right(device, dtype)) return true;
    } catch (const std::exception& error) {
      reason = error.what();
    }
    TORCH_WARN("Products of ", dtype, " on ", device_properties(device).name,
               " do not use its matrix units, which is slower: ", reason);
    return false;
  });
}

}  // namespace outboard
