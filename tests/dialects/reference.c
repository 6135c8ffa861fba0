/*
 * Holds results of the dialect's mathematics against the C library's in long double. Errors are in
 * units in the last place (ulp) of the exact result; a result that should be infinite, zero or NaN
 * and is not, or the reverse, has an infinite error.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <tgmath.h> /* of the type of the argument */

typedef long double wide;

/*
 * Functions of half turns and rsqrt, named `type_name`; those of double are exact enough for
 * floats. Zeros have their signs: OpenCL gives those and poles of tanpi the sign of the half turn
 * before.
 */
#define FUNCTIONS(type)                                                               \
  static const type type##_pi = 3.14159265358979323846264338327950288L;               \
  static type type##_half_turns(type x, int* n) {                                     \
    const type turned = x - 2 * rint(x / 2), whole = rint(turned * 2);                \
    *n = (int)whole & 3;                                                              \
    return (turned - whole / 2) * type##_pi;                                          \
  }                                                                                   \
  static type type##_sinpi(type x) {                                                  \
    int n;                                                                            \
    const type r = type##_half_turns(x, &n), found = (n & 1) != 0 ? cos(r) : sin(r);  \
    if (found == 0) return copysign((type)0, x);                                      \
    return (n & 2) != 0 ? -found : found;                                             \
  }                                                                                   \
  static type type##_cospi(type x) {                                                  \
    int n;                                                                            \
    const type r = type##_half_turns(x, &n), found = (n & 1) != 0 ? -sin(r) : cos(r); \
    return ((n & 2) != 0 ? -found : found) + 0; /* zeros are positive */              \
  }                                                                                   \
  static type type##_tanpi(type x) {                                                  \
    int n;                                                                            \
    const type r = type##_half_turns(x, &n);                                          \
    if (r == 0 && n % 2 != 0) return n == 1 ? INFINITY : -INFINITY;                   \
    if (r == 0) return copysign((type)0, n == 2 ? -x : x);                            \
    return (n & 1) != 0 ? -1 / tan(r) : tan(r);                                       \
  }                                                                                   \
  static type type##_asinpi(type x) { return asin(x) / type##_pi; }                   \
  static type type##_acospi(type x) { return acos(x) / type##_pi; }                   \
  static type type##_atanpi(type x) { return atan(x) / type##_pi; }                   \
  static type type##_rsqrt(type x) { return 1 / sqrt(x); }

FUNCTIONS(wide)
FUNCTIONS(double)

static wide wide_atan2pi(wide y, wide x) { return atan2(y, x) / wide_pi; }

static wide wide_powr(wide x, wide y) {
  if (x < 0 || isnan(x) || isnan(y)) return NAN;
  if (y == 0 && (x == 0 || isinf(x))) return NAN;
  if (x == 1 && isinf(y)) return NAN;
  return powl(fabsl(x), y);
}

typedef struct {
  const char* name;
  wide (*one)(wide);
  wide (*two)(wide, wide);
  double (*quick)(double); /* exact enough for floats */
} function;

/* From the C library, of one argument and of two, and those from above. */
#define ONE(name) {#name, name##l, 0, name}
#define TWO(name) {#name, 0, name##l, 0}
#define OWN(name) {#name, wide_##name, 0, double_##name}
#define OWN_TWO(name) {#name, 0, wide_##name, 0}

static const function functions[] = {
    ONE(exp),         ONE(exp2),    ONE(exp10), ONE(expm1),     ONE(log),      ONE(log2),
    ONE(log10),       ONE(log1p),   ONE(sin),   ONE(cos),       ONE(tan),      OWN(sinpi),
    OWN(cospi),       OWN(tanpi),   ONE(asin),  ONE(acos),      ONE(atan),     OWN(asinpi),
    OWN(acospi),      OWN(atanpi),  ONE(sinh),  ONE(cosh),      ONE(tanh),     ONE(asinh),
    ONE(acosh),       ONE(atanh),   ONE(erf),   ONE(erfc),      ONE(tgamma),   ONE(lgamma),
    ONE(sqrt),        OWN(rsqrt),   ONE(cbrt),  ONE(rint),      ONE(round),    ONE(trunc),
    ONE(floor),       ONE(ceil),    ONE(logb),  TWO(pow),       OWN_TWO(powr), TWO(atan2),
    OWN_TWO(atan2pi), TWO(hypot),   TWO(fmod),  TWO(remainder), TWO(fdim),     TWO(fmax),
    TWO(fmin),        TWO(copysign)};

/* The error of `got`, whose type has `digits` bits and the least normal exponent `least`. */
static double error_of(wide got, wide exact, int digits, int least) {
  if (isnan(exact) || isnan(got)) return isnan(exact) && isnan(got) ? 0 : INFINITY;
  if (got == exact) return 0;
  const wide largest = ldexpl(2 - ldexpl(1, 1 - digits), 1 - least);
  const wide beyond = ldexpl(1, 2 - least);
  /* What is rounded to infinity is as far away as the next power of two. */
  if (isinf(exact)) exact = copysignl(beyond, exact);
  if (isinf(got)) {
    if (fabsl(exact) <= largest - ldexpl(1, 1 - least - digits) * 64) return INFINITY;
    got = copysignl(beyond, got);
  }
  if (fabsl(exact) > beyond) exact = copysignl(beyond, exact);
  int exponent = exact == 0 ? least : ilogbl(exact);
  if (exponent < least) exponent = least;
  return (double)(fabsl(got - exact) / ldexpl(1, exponent - digits + 1));
}

/* The same for a float, of a result in double, where both are finite. */
static double quick_error_of(float got, double exact) {
  uint64_t bits;
  memcpy(&bits, &exact, sizeof(bits));
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  if (exponent < -126) exponent = -126;
  bits = (uint64_t)(23 - exponent + 1023) << 52;
  double factor;
  memcpy(&factor, &bits, sizeof(factor));
  return fabs(got - exact) * factor;
}

/* That of a float, of a result in double. */
static double float_error_of(float got, double exact) {
  return isfinite(got) && fabs(exact) < 0x1p127 ? quick_error_of(got, exact)
                                                : error_of(got, exact, 24, -126);
}

static const function* find(const char* name) {
  for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
    if (strcmp(functions[i].name, name) == 0) return &functions[i];
  }
  return 0;
}

/* What is found in many floats. */
typedef struct {
  double largest;         /* error of what is finite where it should be */
  float argument, result; /* where that is */
  int64_t not_a_number;   /* one is NaN and the other one is not */
  int64_t infinite;       /* one is infinite, and the other one not by more than rounding */
  int64_t sign_of_zero;   /* both are zeros of different signs */
} tally;

/* Adds n results of a function of one argument; returns -1 where there is no such function. */
int add_to_tally(const char* name, const float* x, const float* got, int64_t n, tally* found) {
  const function* f = find(name);
  if (f == 0 || f->quick == 0) return -1;
  for (int64_t k = 0; k < n; ++k) {
    const double exact = f->quick(x[k]);
    const double error = float_error_of(got[k], exact);
    if (error > found->largest && error < INFINITY) {
      found->largest = error;
      found->argument = x[k];
      found->result = got[k];
    } else if (error == INFINITY) {
      if (isnan(exact) || isnan(got[k])) {
        ++found->not_a_number;
      } else {
        ++found->infinite;
      }
    }
    found->sign_of_zero += exact == 0 && got[k] == 0 && !signbit(exact) != !signbit(got[k]);
  }
  return 0;
}

/*
 * The largest error of `name` in n results of arguments x (and y), which are floats if `single`;
 * *worst is its index. Returns -1 where there is no such function.
 */
double largest_error(const char* name, int single, const double* x, const double* y,
                     const double* got, int64_t n, int64_t* worst) {
  const function* f = find(name);
  if (f == 0) return -1;
  double largest = 0;
  *worst = 0;
  for (int64_t k = 0; k < n; ++k) {
    const wide exact = f->one != 0 ? f->one(x[k]) : f->two(x[k], y[k]);
    double error = error_of(got[k], exact, single ? 24 : 53, single ? -126 : -1022);
    /* Near its zeros below 0: in units of 1. */
    if (f->one == lgammal && x[k] < 0 && fabsl(exact) < 1 && exact != 0) {
      error = ldexp(error, ilogbl(exact));
    }
    if (error > largest) {
      largest = error;
      *worst = k;
    }
  }
  return largest;
}
