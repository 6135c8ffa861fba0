// Tile sizes of matrix products, per device.
#pragma once

#include <c10/core/Device.h>

#include "runtime/export.h"

namespace outboard {

struct ProductBlocks {
  int rows;     // of a tile
  int vectors;  // of a tile, side by side
  int panels;   // tiles of a work-item, one below the other
};

OUTBOARD_API ProductBlocks product_blocks(c10::DeviceIndex device);

}  // namespace outboard
