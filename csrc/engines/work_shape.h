// How work is cut for a device. Rows and kernel templates never say this.
#pragma once

#include <c10/core/Device.h>

#include "runtime/export.h"

namespace outboard {

// `width`: elements of a vector in kernels that are written with vectors. `chunk`: elements of one
// work item in kernels over many elements, a multiple of the width. `local`: the one work-group
// size of such kernels: a compiler may need a second to generate code for another one.
struct WorkShape {
  int width;
  int chunk;
  int local;
};

// A processor needs explicit wide vectors and long loops, a GPU short ones and many work items.
OUTBOARD_API WorkShape work_shape(c10::DeviceIndex device);

}  // namespace outboard
