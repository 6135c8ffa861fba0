/*
 * Holds results of the dialect's mathematics against the C library's in long double. Errors are in
 * units in the last place (ulp) of the exact result; a result that should be infinite, zero or NaN
 * and is not, or the other way round, has an infinite error.
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef long double wide;

static const wide pi = 3.14159265358979323846264338327950288L;

static wide half_turns(wide x, int* n) {
  const wide turned = x - 2 * rintl(x / 2);
  const wide whole = rintl(turned * 2);
  *n = (int)whole & 3;
  return (turned - whole / 2) * pi;
}
static wide sinpil_(wide x) {
  int n;
  const wide r = half_turns(x, &n), found = (n & 1) != 0 ? cosl(r) : sinl(r);
  return (n & 2) != 0 ? -found : found;
}
static wide cospil_(wide x) {
  int n;
  const wide r = half_turns(x, &n), found = (n & 1) != 0 ? -sinl(r) : cosl(r);
  return ((n & 2) != 0 ? -found : found) + 0; /* zeros are positive */
}
static wide tanpil_(wide x) {
  int n;
  const wide r = half_turns(x, &n);
  /* OpenCL: the sign of zeros and poles is that of the half turn before. */
  if (r == 0 && n % 2 != 0) return n == 1 ? INFINITY : -INFINITY;
  return sinpil_(x) / cospil_(x);
}
static wide asinpil_(wide x) { return asinl(x) / pi; }
static wide acospil_(wide x) { return acosl(x) / pi; }
static wide atanpil_(wide x) { return atanl(x) / pi; }
static wide atan2pil_(wide y, wide x) { return atan2l(y, x) / pi; }
static wide rsqrtl_(wide x) { return 1 / sqrtl(x); }
static wide powrl_(wide x, wide y) {
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
static const function functions[] = {
    {"exp", expl, 0, exp},        {"exp2", exp2l, 0, exp2},
    {"exp10", exp10l, 0, exp10},  {"expm1", expm1l, 0, expm1},
    {"log", logl, 0, log},        {"log2", log2l, 0, log2},
    {"log10", log10l, 0, log10},  {"log1p", log1pl, 0, log1p},
    {"sin", sinl, 0, sin},        {"cos", cosl, 0, cos},
    {"tan", tanl, 0, tan},        {"sinpi", sinpil_, 0, 0},
    {"cospi", cospil_, 0, 0},     {"tanpi", tanpil_, 0, 0},
    {"asin", asinl, 0, asin},     {"acos", acosl, 0, acos},
    {"atan", atanl, 0, atan},     {"asinpi", asinpil_, 0, 0},
    {"acospi", acospil_, 0, 0},   {"atanpi", atanpil_, 0, 0},
    {"sinh", sinhl, 0, sinh},     {"cosh", coshl, 0, cosh},
    {"tanh", tanhl, 0, tanh},     {"asinh", asinhl, 0, asinh},
    {"acosh", acoshl, 0, acosh},  {"atanh", atanhl, 0, atanh},
    {"erf", erfl, 0, erf},        {"erfc", erfcl, 0, erfc},
    {"tgamma", tgammal, 0, 0},    {"lgamma", lgammal, 0, lgamma},
    {"sqrt", sqrtl, 0, sqrt},     {"rsqrt", rsqrtl_, 0, 0},
    {"cbrt", cbrtl, 0, cbrt},     {"rint", rintl, 0, 0},
    {"round", roundl, 0, 0},      {"trunc", truncl, 0, 0},
    {"floor", floorl, 0, 0},      {"ceil", ceill, 0, 0},
    {"logb", logbl, 0, 0},        {"pow", 0, powl, 0},
    {"powr", 0, powrl_, 0},       {"atan2", 0, atan2l, 0},
    {"atan2pi", 0, atan2pil_, 0}, {"hypot", 0, hypotl, 0},
    {"fmod", 0, fmodl, 0},        {"remainder", 0, remainderl, 0},
    {"fdim", 0, fdiml, 0},        {"fmax", 0, fmaxl, 0},
    {"fmin", 0, fminl, 0},        {"copysign", 0, copysignl, 0},
};

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

/*
 * The largest error of `name` in n results of arguments x (and y), in float, else double; *worst is
 * its place. Returns -1 where there is no such function.
 */
double largest_error(const char* name, int single, const void* x, const void* y, const void* got,
                     int64_t n, int64_t* worst) {
  for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
    const function* f = &functions[i];
    if (strcmp(f->name, name) != 0) continue;
    double largest = 0;
    *worst = 0;
    for (int64_t k = 0; k < n; ++k) {
      if (single && f->quick != 0) {
        const float result = ((const float*)got)[k];
        const double exact = f->quick(((const float*)x)[k]);
        const double error = isfinite(result) && fabs(exact) < 0x1p127
                                 ? quick_error_of(result, exact)
                                 : error_of(result, exact, 24, -126);
        if (error > largest) {
          largest = error;
          *worst = k;
        }
        continue;
      }
      const wide a = single ? (wide)((const float*)x)[k] : (wide)((const double*)x)[k];
      const wide g = single ? (wide)((const float*)got)[k] : (wide)((const double*)got)[k];
      wide b = 0;
      if (f->two != 0) b = single ? (wide)((const float*)y)[k] : (wide)((const double*)y)[k];
      const wide exact = f->one != 0 ? f->one(a) : f->two(a, b);
      const double error = single ? error_of(g, exact, 24, -126) : error_of(g, exact, 53, -1022);
      if (error > largest) {
        largest = error;
        *worst = k;
      }
    }
    return largest;
  }
  return -1;
}
