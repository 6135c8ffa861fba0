// Work distribution of a device. Definitions and kernel templates do not contain it.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>

#include "runtime/export.h"

namespace outboard {

// `vector_bytes`: size of explicit vectors. `chunk`: elements per work-item in kernels over many
// elements, a multiple of every width; 0: one vector, so that adjacent work-items read adjacent
// vectors. `local`: the only work-group size of such kernels, since a compiler may need a second
// per size.
struct WorkShape {
  int vector_bytes;
  int chunk;
  int local;

  // Elements of a vector with values of up to `item_bytes` bytes: 2, 4, 8 or 16.
  int width(int item_bytes) const { return std::clamp(vector_bytes / item_bytes, 2, 16); }
  // Elements per work-item, in vectors of `width`.
  int elements(int width) const { return chunk == 0 ? width : chunk; }
};

// A CPU needs explicit wide vectors and long loops, a GPU short ones and many work-items.
OUTBOARD_API WorkShape work_shape(c10::DeviceIndex device);

// Work-items that share the work of a group, in kernels that do so: 1 on a CPU, which runs the
// work-items of a group sequentially.
OUTBOARD_API int group_lanes(c10::DeviceIndex device);

}  // namespace outboard
