// How work is cut for a device. Definitions and kernel templates never say this.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>

#include "runtime/export.h"

namespace outboard {

// `vector_bytes`: size of vectors in kernels that are written with vectors. `chunk`: elements of
// one work item in kernels over many elements, a multiple of every width; 0: one vector, so that
// adjacent work items take adjacent vectors. `local`: the one work-group size of such kernels: a
// compiler may need a second to generate code for another one.
struct WorkShape {
  int vector_bytes;
  int chunk;
  int local;

  // Elements of a vector that holds values of up to `item_bytes` each: 2, 4, 8 or 16.
  int width(int item_bytes) const { return std::clamp(vector_bytes / item_bytes, 2, 16); }
  // Elements of one work item, of which vectors have `width`.
  int elements(int width) const { return chunk == 0 ? width : chunk; }
};

// A processor needs explicit wide vectors and long loops, a GPU short ones and many work items.
OUTBOARD_API WorkShape work_shape(c10::DeviceIndex device);

// Work items that share the work of a group, in kernels where they do: one on a processor, which
// runs the items of a group one after the other.
OUTBOARD_API int group_lanes(c10::DeviceIndex device);

}  // namespace outboard
