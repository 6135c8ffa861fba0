// Products of float16 and bfloat16 by matrix units: whether a device has them, and in which tiles.
#pragma once

#include <string>
#include <vector>

#include "device_kernels/product/groups/group_tiles.h"

namespace outboard {

// Whether products of this dtype use matrix units: the device says that it has some, and multiplies
// two small matrices right. Otherwise there is one warning, and products do without.
bool uses_matrix_units(c10::DeviceIndex device, at::ScalarType dtype, const std::string& text);

// Its tiles.
std::vector<GroupTiles::Tile> unit_tiles(c10::DeviceIndex device);

}  // namespace outboard
