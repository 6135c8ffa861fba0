/*
 * OpenCL C for a clang without OpenCL's headers and library.
 *
 *   clang --target=... -march=... -x cl -cl-std=CL1.2 -cl-no-stdinc -O3 -include <here>/opencl.h
 *   ...
 *
 * A work-group is one work-item. entry.h describes how a launch calls a kernel. The language is
 * OpenCL C 1.2 with float64, 64-bit atomics, and half in memory (vload_half, vstore_half), without
 * images, printf and asynchronous copies.
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
/* clang-format on */

#endif
