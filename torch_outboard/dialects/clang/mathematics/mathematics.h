/*
 * Mathematical functions of OpenCL C, as texts over vectors: without branches that depend on an
 * element, except where arguments are huge, and without a library.
 *
 * The files below that have no include guard are read once for each width and type (instance.h).
 * Where a text needs exact products and sums it says so (ob_two_product, ob_two_sum): the compiler
 * fuses and reorders nothing.
 */
#ifndef OUTBOARD_DIALECT_MATHEMATICS_H
#define OUTBOARD_DIALECT_MATHEMATICS_H

#pragma float_control(push)
#pragma clang fp contract(off)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wparentheses"

#include "constants.h"
#include "coefficients.h"
#include "polynomials.h"

#define OB_PASTE_(a, b) a##b
#define OB_PASTE(a, b) OB_PASTE_(a, b)

#define OB_WIDTH
#include "instance.h"
#undef OB_WIDTH
#define OB_WIDTH 2
#include "instance.h"
#undef OB_WIDTH
#define OB_WIDTH 4
#include "instance.h"
#undef OB_WIDTH
#define OB_WIDTH 8
#include "instance.h"
#undef OB_WIDTH
#define OB_WIDTH 16
#include "instance.h"
#undef OB_WIDTH

#include "names.h"

#pragma clang diagnostic pop
#pragma float_control(pop)

#endif
