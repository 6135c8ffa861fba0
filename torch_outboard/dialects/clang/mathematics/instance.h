/*
 * The functions for vectors of OB_WIDTH elements; for scalars if it is empty. Names:
 *
 *   T, S      the floating-point type, and that of its elements
 *   I, U, J   signed and unsigned integers of the size of S; J of elements
 *   M         the type of comparisons
 *   N, D, F   vectors of int, double and float of the width
 *   OB_TO(x, type), OB_BITS(x, type)   conversion; reinterpretation
 *   K(name)   a constant of coefficients.h
 */
#define D OB_PASTE(double, OB_WIDTH)
#define F OB_PASTE(float, OB_WIDTH)
#define N OB_PASTE(int, OB_WIDTH)
#define OB_BITS(x, type) __builtin_astype((x), type)
/* 1 for scalars: OB_WIDTH is empty. */
#define OB_IS_NUMBER (OB_PASTE(1, OB_WIDTH) == 1)
#if OB_IS_NUMBER
#define OB_TO(x, type) ((type)(x))
#define OB_LANE(x, i) (x)
#define OB_LANES 1
#define OB_ANY(mask) (mask)
#define M int
#else
#define OB_TO(x, type) __builtin_convertvector((x), type)
#define OB_LANE(x, i) (x)[i]
#define OB_LANES OB_WIDTH
#define OB_ANY(mask) any(mask)
#define M I
#endif

#define OB_IS_DOUBLE 1
#define T D
#define S double
#define I OB_PASTE(long, OB_WIDTH)
#define U OB_PASTE(ulong, OB_WIDTH)
#define J long
#define K(name) OB_##name##_DOUBLE
#include "functions/arithmetic.h"
#include "functions/exponential.h"
#include "functions/trigonometric.h"
#include "functions/hyperbolic.h"
#include "functions/special.h"
#undef OB_IS_DOUBLE
#undef T
#undef S
#undef I
#undef U
#undef J
#undef K

/* float2 is missing: see names.h. */
#if OB_PASTE(1, OB_WIDTH) != 12
#define OB_IS_DOUBLE 0
#define T F
#define S float
#define I N
#define U OB_PASTE(uint, OB_WIDTH)
#define J int
#define K(name) OB_##name##_FLOAT
#include "functions/arithmetic.h"
#include "functions/exponential.h"
#include "functions/trigonometric.h"
#include "functions/hyperbolic.h"
#include "functions/special.h"
#undef OB_IS_DOUBLE
#undef T
#undef S
#undef I
#undef U
#undef J
#undef K
#endif

#undef D
#undef F
#undef N
#undef M
#undef OB_BITS
#undef OB_TO
#undef OB_LANE
#undef OB_LANES
#undef OB_ANY
#undef OB_IS_NUMBER
#undef OB_WIDTH
