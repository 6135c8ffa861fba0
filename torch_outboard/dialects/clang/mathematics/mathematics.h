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

#include "coefficients.h"

/* ---- Formats of float and double, and the domains of functions ---- */

#define OB_MANTISSA_FLOAT 23
#define OB_MANTISSA_DOUBLE 52
#define OB_EXPONENTS_FLOAT 0xff
#define OB_EXPONENTS_DOUBLE 0x7ff
#define OB_BIAS_FLOAT 127
#define OB_BIAS_DOUBLE 1023
#define OB_SIGN_BIT_FLOAT (-0x7fffffff - 1)
#define OB_SIGN_BIT_DOUBLE (-0x7fffffffffffffffL - 1)
#define OB_INFINITE_BITS_FLOAT 0x7f800000
#define OB_INFINITE_BITS_DOUBLE 0x7ff0000000000000L
/* The smallest mantissa in logarithms: 2 / 3, where errors of the float series are balanced, and
 * sqrt(1 / 2). */
#define OB_LEAST_MANTISSA_FLOAT 0x3f2aaaab
#define OB_LEAST_MANTISSA_DOUBLE 0x3fe6a09e667f3bcdL
#define OB_SMALLEST_NORMAL_FLOAT 0x1p-126f
#define OB_SMALLEST_NORMAL_DOUBLE OB_DOUBLE_BITS(0x0010000000000000)
#define OB_ONE_BY_EPSILON_FLOAT 0x1p23f
#define OB_ONE_BY_EPSILON_DOUBLE 0x1p52f
/* 2^500 and 2^-500. */
#define OB_SQUARE_ROOT_LARGEST_DOUBLE OB_DOUBLE_BITS(0x5f30000000000000)
#define OB_SQUARE_ROOT_LEAST_DOUBLE OB_DOUBLE_BITS(0x20b0000000000000)
/* Adding and subtracting it rounds to an integer. */
#define OB_ROUNDER_FLOAT 0x1.8p23f
#define OB_ROUNDER_DOUBLE 0x1.8p52f

/* Beyond, results are 0 or infinite, or -1. */
#define OB_EXP_LOW_FLOAT (-105)
#define OB_EXP_LOW_DOUBLE (-750)
#define OB_EXP_HIGH_FLOAT 89
#define OB_EXP_HIGH_DOUBLE 710
#define OB_EXP2_LOW_FLOAT (-152)
#define OB_EXP2_LOW_DOUBLE (-1080)
#define OB_EXP2_HIGH_FLOAT 129
#define OB_EXP2_HIGH_DOUBLE 1025
#define OB_EXP10_LOW_FLOAT (-47)
#define OB_EXP10_LOW_DOUBLE (-326)
#define OB_EXP10_HIGH_FLOAT 39
#define OB_EXP10_HIGH_DOUBLE 309
#define OB_EXPM1_LOW_FLOAT (-20)
#define OB_EXPM1_LOW_DOUBLE (-40)

/* Constants of the current type (instance.h). */
#define OB_MANTISSA K(MANTISSA)
#define OB_EXPONENTS K(EXPONENTS)
#define OB_BIAS K(BIAS)
#define OB_SIGN_BIT ((J)(K(SIGN_BIT)))
#define OB_INFINITE_BITS ((J)(K(INFINITE_BITS)))
#define OB_SMALLEST_NORMAL ((T)(K(SMALLEST_NORMAL)))
#define OB_ONE_BY_EPSILON K(ONE_BY_EPSILON)
#define OB_ROUNDER K(ROUNDER)
#define OB_INFINITE ((T)(__builtin_inff()))
#define OB_NOT_A_NUMBER ((T)(__builtin_nanf("")))

#if defined(__SSE4_1__) || defined(__aarch64__)
#define OB_ROUNDS 1 /* the processor has rounding instructions */
#else
#define OB_ROUNDS 0
#endif

/* ---- Polynomials ---- */

#if defined(__FMA__) || defined(__aarch64__) || defined(__riscv_flen)
#define OB_FUSED 1 /* fused products and sums are fast; used where requested */
#else
#define OB_FUSED 0
#endif

/* a + b x + c x^2 + ..., by Horner's rule; the coefficients are constants after unrolling. */
#define OB_COEFFICIENT(bits) ((T)(OB_BITS((J)(bits), S)))
#define OB_POLYNOMIAL(x, ...)                                          \
  ({                                                                   \
    const J ob_terms[] = {__VA_ARGS__};                                \
    const T ob_x = (x);                                                \
    int ob_i = sizeof(ob_terms) / sizeof(J) - 1;                       \
    T ob_sum = OB_COEFFICIENT(ob_terms[ob_i]);                         \
    _Pragma("unroll") while (ob_i > 0) {                               \
      ob_sum = ob_mad(ob_sum, ob_x, OB_COEFFICIENT(ob_terms[--ob_i])); \
    }                                                                  \
    ob_sum;                                                            \
  })
#define OB_FIRST_OF(a, ...) a
#define OB_FIRST(...) OB_FIRST_OF(__VA_ARGS__)
#define OB_FOLLOWING_OF(a, ...) __VA_ARGS__
#define OB_FOLLOWING(...) OB_FOLLOWING_OF(__VA_ARGS__)

/* ---- Functions by width ---- */

#define OB_PASTE_(a, b) a##b
#define OB_PASTE(a, b) OB_PASTE_(a, b)

#define OB_WIDTH
#include "instance.h"
#define OB_WIDTH 2
#include "instance.h"
#define OB_WIDTH 4
#include "instance.h"
#define OB_WIDTH 8
#include "instance.h"
#define OB_WIDTH 16
#include "instance.h"

#include "names.h"

#pragma clang diagnostic pop
#pragma float_control(pop)

#endif
