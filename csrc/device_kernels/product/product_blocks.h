// How matrix products are cut into tiles on a device: a default per kind of device, or what
// `python -m torch_outboard tune` found.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include "runtime/export.h"

namespace outboard {

struct ProductBlocks {
  int rows;     // of a tile
  int vectors;  // of a tile, side by side
  int panels;   // tiles of a work item, one below the other
};

// For sums of the dtype.
OUTBOARD_API ProductBlocks product_blocks(c10::DeviceIndex device, at::ScalarType dtype);

// Replaces the default from the next product on; what is running goes on. Raises ValueError for
// numbers below one, or for tiles beyond what any compiler could hold in registers.
OUTBOARD_API void set_product_blocks(c10::DeviceIndex device, at::ScalarType dtype,
                                     const ProductBlocks& blocks);

}  // namespace outboard
