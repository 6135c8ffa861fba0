/*
 * OpenCL C for a clang without OpenCL's headers and library: what programs take from them.
 *
 *   clang --target=... -march=... -x cl -cl-std=CL1.2 -cl-no-stdinc -O3 -include <here>/opencl.h
 * ...
 *
 * One work item makes a work-group. How a launch reaches a kernel is said in entry.h; all else is
 * OpenCL C 1.2 with float64, 64-bit atomics, and half in memory (vload_half, vstore_half). There
 * are no images, no printf, and no asynchronous copies.
 */
#ifndef OUTBOARD_DIALECT_OPENCL_H
#define OUTBOARD_DIALECT_OPENCL_H

/* In this order. clang-format off */
#include "language/types.h"
#include "language/work_items.h"
#include "values/conversions.h"
#include "values/relations.h"
#include "values/integers.h"
#include "values/vectors.h"
#include "mathematics/mathematics.h"
#include "values/common.h"
#include "values/geometric.h"
#include "language/atomics.h"
/* clang-format on */

#endif
