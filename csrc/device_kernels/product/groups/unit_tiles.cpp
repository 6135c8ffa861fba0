#include "device_kernels/product/groups/unit_tiles.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>

#include <exception>
#include <tuple>

#include "device_kernels/kernel_table.h"
#include "runtime/driver/device.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

using at::ScalarType;

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
  std::string text = define("UNIT_ROWS", tile.rows) + define("UNIT_COLUMNS", tile.columns) +
                     define("UNIT_DEPTH", tile.depth) + define("WARPS_DOWN", tile.down) +
                     define("WARPS_ACROSS", tile.across) + define("STAGES", tile.stages) +
                     define("UNIT_ITEMS", items) +
                     // For kernels without shared tiles.
                     define("ROW_VECTORS", 1) + define("COLUMN_VECTORS", 1) + define("DEPTH", 32);
  if (warpgroups) text += define("WARPGROUPS", 1);
  return {tile.rows, tile.columns, items, tile.registers, tile.at_once, tile.speed, text};
}

bool has(c10::DeviceIndex device, uint32_t feature) {
  return (device_properties(device).features & feature) != 0;
}

// Small integers: products and sums are exact.
at::Tensor integers(int64_t size, int64_t step, ScalarType dtype) {
  const at::Tensor numbers = at::arange(size * size).mul(step).remainder(7).sub(3);
  return numbers.view({size, size}).to(dtype);
}

bool multiplies_right(c10::DeviceIndex device, ScalarType dtype, const std::string& text) {
  constexpr int64_t kSize = 72;  // more than a tile
  const at::Tensor left = integers(kSize, 5, dtype), right = integers(kSize, 11, dtype);
  const at::Device there(c10::DeviceType::PrivateUse1, device);
  const at::Tensor a = left.to(there), b = right.to(there), out = at::empty_like(a);
  ProductLayout layout;
  layout.rows = layout.columns = layout.depth = layout.inner_depth = layout.inner_columns = kSize;
  layout.left = layout.right = layout.out = {0, kSize, 1, 0};
  // Never destroyed: the kernel tables use its address as a key.
  const auto& tiles =
      *new GroupTiles(device, dtype, /*wide=*/false, /*side=*/16, /*units=*/true, text);
  tiles.multiply(layout, {},
                 {a.const_data_ptr(), b.const_data_ptr(), out.mutable_data_ptr(), nullptr});
  return out.cpu().to(at::kFloat).equal(at::mm(left.to(at::kFloat), right.to(at::kFloat)));
}

}  // namespace

bool uses_matrix_units(c10::DeviceIndex device, ScalarType dtype, const std::string& text) {
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
      if (multiplies_right(device, dtype, text)) return true;
    } catch (const std::exception& error) {
      reason = error.what();
    }
    TORCH_WARN("Products of ", dtype, " on ", device_properties(device).name,
               " go without its matrix units, which is slower: ", reason);
    return false;
  });
}

std::vector<GroupTiles::Tile> unit_tiles(c10::DeviceIndex device) {
  const bool warpgroups = has(device, OB_FEATURE_WARPGROUPS);
  std::vector<GroupTiles::Tile> tiles;
  for (const UnitTile& tile : warpgroups ? kWarpgroupTiles : kUnitTiles) {
    tiles.push_back(unit_tile(tile, warpgroups));
  }
  return tiles;
}

}  // namespace outboard
