/*
 * Mathematical functions of OpenCL C, as source over vectors: without branches per element, except
 * for huge arguments, and without a library.
 *
 * Files below without an include guard are read once per width and type (instance.h). Exact
 * products and sums are explicit (ob_two_product, ob_two_sum): the compiler fuses and reorders
 * nothing.
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
