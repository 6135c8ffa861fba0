// Products of float16 and bfloat16 by matrix units: detection, and the tiles of a device.
#pragma once

#include <string>
#include <vector>

#include "device_kernels/product/groups/group_tiles.h"

namespace outboard {

// True if products of this dtype use matrix units: the device declares them and computes a small
// product correctly. A wrong result warns once, and products do not use them.
bool uses_matrix_units(c10::DeviceIndex device, at::ScalarType dtype, const std::string& text);

// The tiles of its matrix units.
std::vector<GroupTiles::Tile> unit_tiles(c10::DeviceIndex device);

}  // namespace outboard
