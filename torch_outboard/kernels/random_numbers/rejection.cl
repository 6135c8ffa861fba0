// Values of the Poisson, binomial and gamma distributions, from an unbounded number of draws. This
// source is compiled as OpenCL C, and as C++ by csrc/random/cpu_random.cpp. Both give the
// same bits, since it uses only integers and + - * / sqrt floor of float64, in an order that
// neither changes.
//
// Element i has its own draws: block k has the counter (i, offset + k), in the notation of
// csrc/random/distributions.h. An operator reserves REJECTION_BLOCKS offsets. An attempt uses one block.
// All attempts fail with a probability below 1e-20; then the value is the middle of the
// distribution.
//
// Methods:
//   W. Hoermann, "The transformed rejection method for generating Poisson random variables",
//     Insurance: Mathematics and Economics 12 (1993): PTRS, for rates from 10 on;
//   W. Hoermann, "The generation of binomial random variates", Journal of Statistical Computation
//     and Simulation 46 (1993): BTRS, for n * p from 10 on;
//   G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM
//     Transactions on Mathematical Software 26 (2000);
// and below 10 inversion of one uniform number, by sequential search from 0 on.

#ifndef __cplusplus
#pragma OPENCL FP_CONTRACT OFF
#define REJECTION_WORDS uint4
#endif

#define REJECTION_BLOCKS 64

// The draws of an element after its first block.
typedef struct {
  ulong element, seed, offset;
} rejection_draws;

static inline REJECTION_WORDS rejection_block(const rejection_draws draws, const uint k) {
  return philox(draws.element, draws.seed, draws.offset + k);
}

// A number in (0, 1) with 53 bits.
static inline double rejection_unit(const uint low, const uint high) {
  const ulong draw = ((ulong)high << 32) | low;
  return as_double((draw >> 12) | 0x3FF0000000000000ul) - 0.99999999999999988898;  // 1 - 2^-53
}

// log((1 + f) / (1 - f)), abs(f) <= 0.1716: the series of the inverse hyperbolic tangent.
static inline double rejection_log_of_ratio(const double f) {
  const double s = f * f, s2 = s * s, s4 = s2 * s2;
  const double low = (1.0 / 3 + s * (1.0 / 5)) + s2 * (1.0 / 7 + s * (1.0 / 9));
  const double middle = (1.0 / 11 + s * (1.0 / 13)) + s2 * (1.0 / 15 + s * (1.0 / 17));
  const double high = (1.0 / 19 + s * (1.0 / 21)) + s2 * (1.0 / 23);
  const double tail = low + s4 * (middle + s4 * high);
  return 2.0 * f + 2.0 * f * (s * tail);
}

// log(2) in two parts: the first has few bits, so that its products with small integers are exact.
#define REJECTION_LOG2_HIGH 0.6931471803691238
#define REJECTION_LOG2_LOW 1.9082149292705877e-10

// log(x) of a normal, finite x > 0.
static inline double rejection_log(const double x) {
  // x = mantissa * 2^exponent, mantissa in [sqrt(1/2), sqrt(2))
  const ulong shifted = as_ulong(x) - 0x3FE6A09E667F3BCDul;
  const double exponent = (double)((int)(uint)(shifted >> 32) >> 20);
  const double mantissa = as_double((shifted & 0x000FFFFFFFFFFFFFul) + 0x3FE6A09E667F3BCDul);
  const double small = rejection_log_of_ratio((mantissa - 1.0) / (mantissa + 1.0));
  return exponent * REJECTION_LOG2_HIGH + (small + exponent * REJECTION_LOG2_LOW);
}

// log(1 + x), x > -1: corrects the rounding of the sum.
static inline double rejection_log1p(const double x) {
  const double sum = 1.0 + x;
  return rejection_log(sum) + (x - (sum - 1.0)) / sum;
}

// exp(x), x <= 0: 0 for subnormal results.
static inline double rejection_exp(const double x) {
  const bool normal = x > -708.0;
  const int turns = normal ? (int)(x * 1.4426950408889634 - 0.5) : 0;
  const double r = (x - turns * REJECTION_LOG2_HIGH) - turns * REJECTION_LOG2_LOW;
  // The exponential series, in halves: shorter dependency chains.
  const double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
  const double low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6));
  const double middle = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
  const double high = (1.0 / 40320 + r * (1.0 / 362880)) +
                      r2 * (1.0 / 3628800 + r * (1.0 / 39916800)) +
                      r4 * (1.0 / 479001600 + r * (1.0 / 6227020800));
  const double sum = low + (r4 * middle + r8 * high);
  return normal ? sum * as_double((ulong)(turns + 1023) << 52) : 0.0;
}

// The remainder of Stirling's formula, k >= 0 an integer:
// log(k!) - (log(2 * pi) / 2 + (k + 1/2) * log(k + 1) - (k + 1))
// times (k + 1), as the polynomial in 1 / (k + 1)^2 that is exact for k + 1 = 1 ... 8, 10, 14 and
// in the limit. The error is below 1e-17 for all other k.
static inline double rejection_tail(const double k) {
  const double x = 1.0 / (k + 1.0), s = x * x;
  double sum = 0.06913959794657805;
  sum = sum * s - 0.11981763551115689;
  sum = sum * s + 0.06827668723601851;
  sum = sum * s - 0.022322337467972266;
  sum = sum * s + 0.006098581668760309;
  sum = sum * s - 0.0019090047256950986;
  sum = sum * s + 0.0008416080111870677;
  sum = sum * s - 0.0005952367045741348;
  sum = sum * s + 0.0007936507866122943;
  sum = sum * s - 0.002777777777763913;
  sum = sum * s + 0.08333333333333333;
  return sum * x;
}

// Attempts return a value, or -1 if rejected. They have few branches, so that the host can
// vectorize them.

// rate >= 10
static inline double rejection_poisson_attempt(const double rate, const REJECTION_WORDS words) {
  const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const double u = rejection_unit(words.x, words.y) - 0.5, v = rejection_unit(words.z, words.w);
  const double s = 0.5 - (u < 0.0 ? -u : u);
  const bool huge = rate > 1e300;
  const double k = huge ? rate : floor((2.0 * a / s + b) * u + rate + 0.43);
  if (huge | ((s >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2.0)))) return k;
  if ((k < 0.0) | ((s < 0.013) & (v > s))) return -1.0;
  // log of the probability of k, by Stirling's formula, with large terms combined to avoid
  // cancellation.
  const double n = k + 1.0;
  const double log_mass = (n - rate) + k * rejection_log1p((rate - n) / n) -
                          0.5 * rejection_log(n) - 0.9189385332046728 - rejection_tail(k);
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  return rejection_log(v * inverse_alpha / (a / (s * s) + b)) <= log_mass ? k : -1.0;
}

// rate < 10, mass = exp(-rate)
static inline double rejection_poisson_search(const double rate, double mass,
                                              const REJECTION_WORDS words) {
  double unit = rejection_unit(words.x, words.y), k = 0.0;
  while (unit > mass && k < 100.0) {
    unit -= mass;
    k += 1.0;
    mass *= rate / k;
  }
  return k;
}

// rate >= 0
static inline double rejection_poisson(const double rate, const REJECTION_WORDS words,
                                       const rejection_draws draws) {
  if (rate < 10.0) return rejection_poisson_search(rate, rejection_exp(-rate), words);
  double value = rejection_poisson_attempt(rate, words);
  for (uint k = 1; value < 0.0 && k < REJECTION_BLOCKS; ++k) {
    value = rejection_poisson_attempt(rate, rejection_block(draws, k));
  }
  return value < 0.0 ? floor(rate) : value;
}

// n an integer, 0 < p <= 1/2, n * p >= 10
static inline double rejection_binomial_attempt(const double n, const double p,
                                                const REJECTION_WORDS words) {
  const double deviation = sqrt(n * p * (1.0 - p)), mode = floor((n + 1.0) * p);
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double u = rejection_unit(words.x, words.y) - 0.5, v = rejection_unit(words.z, words.w);
  const double s = 0.5 - (u < 0.0 ? -u : u);
  const bool huge = n > 1e300;
  const double k = huge ? n * p : floor((2.0 * a / s + b) * u + n * p + 0.5);
  if ((k < 0.0) | (k > n)) return -1.0;
  if (huge | ((s >= 0.07) & (v <= 0.92 - 4.2 / b))) return k;
  // log of the ratio of the probabilities of k and the mode, as above.
  const double left = n - k + 1.0;
  const double log_quotient =
      (k - mode) * rejection_log(p / (1.0 - p) * (left / (k + 1.0))) +
      (mode + 0.5) * rejection_log1p((mode - k) / (k + 1.0)) +
      (n - mode + 0.5) * rejection_log1p((k - mode) / left) +
      ((rejection_tail(mode) + rejection_tail(n - mode)) -
       (rejection_tail(k) + rejection_tail(n - k)));
  const double alpha = (2.83 + 5.1 / b) * deviation;
  return rejection_log(v * alpha / (a / (s * s) + b)) <= log_quotient ? k : -1.0;
}

// The probability of 0, 0 < p <= 1/2, n * p < 10.
static inline double rejection_binomial_mass(const double n, const double p) {
  return rejection_exp(n * rejection_log1p(-p));
}

static inline double rejection_binomial_search(const double n, const double p, double mass,
                                               const REJECTION_WORDS words) {
  const double ratio = p / (1.0 - p);
  double unit = rejection_unit(words.x, words.y), k = 0.0;
  while (unit > mass && k < n && k < 100.0) {
    unit -= mass;
    mass *= ratio * (n - k) / (k + 1.0);
    k += 1.0;
  }
  return k;
}

// The value if nothing is drawn, else -1. Parameters out of range are clamped.
static inline double rejection_binomial_known(const double count, const double p) {
  if (count <= 0.0 || p <= 0.0) return 0.0;
  if (p >= 1.0) return count;
  if (p != p || count - count != 0.0) return count + p;  // NaN or infinite
  if (count < 1.0) return p > 0.5 ? count : 0.0;
  return -1.0;
}

// Any count and probability.
static inline double rejection_binomial(const double count, const double p,
                                        const REJECTION_WORDS words, const rejection_draws draws) {
  const double known = rejection_binomial_known(count, p);
  if (!(known < 0.0)) return known;
  const double n = floor(count), q = p > 0.5 ? 1.0 - p : p;
  double value;
  if (n * q < 10.0) {
    value = rejection_binomial_search(n, q, rejection_binomial_mass(n, q), words);
  } else {
    value = rejection_binomial_attempt(n, q, words);
    for (uint k = 1; value < 0.0 && k < REJECTION_BLOCKS; ++k) {
      value = rejection_binomial_attempt(n, q, rejection_block(draws, k));
    }
    if (value < 0.0) value = floor(n * q);
  }
  return p > 0.5 ? count - value : value;
}

// A standard normal by the Box-Muller transform, with the sine of the angle. The quarters next to 0
// have all values of the sine.
static inline double rejection_normal(const REJECTION_WORDS words) {
  const double radius = sqrt(-2.0 * rejection_log(rejection_unit(words.x, words.y)));
  // In (-1, 1), in quarters of a turn.
  const double angle = ((double)words.z + 0.5) * 4.656612873077393e-10 - 1.0;
  const double s = angle * angle;
  const double s2 = s * s, s4 = s2 * s2;
  const double low = (1.5707963267948966 - s * 0.6459640975062463) +
                     s2 * (0.07969262624616705 - s * 0.004681754135318688);
  const double middle = (0.00016044118478735983 - s * 3.598843235212085e-06) +
                        s2 * (5.692172921967927e-08 - s * 6.688035109811468e-10);
  const double high = 6.0669357311061955e-12 - s * 4.377065467313742e-14;
  const double sine = low + s4 * (middle + s4 * high);
  return radius * (sine * angle);
}

// A gamma variable is factor * exp(exponent), which may underflow.
typedef struct {
  double factor, exponent;
} rejection_gamma_parts;

// The factor, alpha > 0.
static inline double rejection_gamma_attempt(const double alpha, const REJECTION_WORDS words) {
  const double d = (alpha < 1.0 ? alpha + 1.0 : alpha) - 1.0 / 3, c = 1.0 / sqrt(9.0 * d);
  const double x = rejection_normal(words), t = c * x, y = 1.0 + t;
  const double v = y * y * y, square = x * x;
  const double u = ((double)words.w + 0.5) * 2.3283064365386963e-10;
  if (!(y > 0.0)) return -1.0;
  if (u < 1.0 - 0.0331 * (square * square)) return d * v;
  // 1 - v + log(v), with large terms combined to avoid cancellation
  const double difference = 3.0 * (rejection_log1p(t) - t) - t * t * (3.0 + t);
  return rejection_log(u) < 0.5 * square + d * difference ? d * v : -1.0;
}

// For alpha < 1, from the last block: attempts use the earlier ones.
static inline double rejection_gamma_exponent(const double alpha, const REJECTION_WORDS last) {
  return rejection_log(rejection_unit(last.x, last.y)) / alpha;
}

static inline rejection_gamma_parts rejection_gamma(const double alpha, const REJECTION_WORDS words,
                                                    const rejection_draws draws) {
  rejection_gamma_parts parts = {1.0, -INFINITY};
  if (!(alpha > 0.0)) return parts;
  double factor = rejection_gamma_attempt(alpha, words);
  for (uint k = 1; factor < 0.0 && k < REJECTION_BLOCKS - 1; ++k) {
    factor = rejection_gamma_attempt(alpha, rejection_block(draws, k));
  }
  parts.factor = factor < 0.0 ? alpha : factor;
  parts.exponent = 0.0;
  if (alpha < 1.0) {
    parts.exponent =
        rejection_gamma_exponent(alpha, rejection_block(draws, REJECTION_BLOCKS - 1));
  }
  return parts;
}

// The value, at least `smallest`.
static inline double rejection_gamma_value(const rejection_gamma_parts parts,
                                           const double smallest) {
  const double value = parts.factor * rejection_exp(parts.exponent);
  return value > smallest ? value : smallest;
}

// The value relative to exp(`largest`), the largest exponent of all.
static inline double rejection_gamma_weight(const rejection_gamma_parts parts,
                                            const double largest) {
  if (parts.exponent == largest) return parts.factor;
  return parts.factor * rejection_exp(parts.exponent - largest);
}

// A weight's share of a sum, between two limits.
static inline double rejection_share(const double weight, const double sum, const double smallest,
                                     const double largest) {
  const double share = weight / sum;
  if (share > largest) return largest;
  return share > smallest ? share : smallest;
}

#ifndef __cplusplus  // kernels; need philox.cl before them

#if HAS_factors

// Shares of gamma variables in the sums of their rows.

__kernel void gamma_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const rejection_draws draws = {(ulong)i, ob_seed, ob_offset};
  const rejection_gamma_parts parts =
      rejection_gamma(self_load(i), philox((ulong)i, ob_seed, ob_offset), draws);
  factors_store(i, parts.factor);
  exponents_store(i, parts.exponent);
}

// One work-item per row, since the order of a sum determines its bits.
__kernel void shares(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(row)
  const ob_index first = row * length, last = first + length;
  double top = exponents_load(first);
  for (ob_index i = first + 1; i < last; ++i) {
    const double exponent = exponents_load(i);
    top = exponent > top ? exponent : top;
  }
  double sum = 0.0;
  for (ob_index i = first; i < last; ++i) {
    const rejection_gamma_parts parts = {factors_load(i), exponents_load(i)};
    const double weight = rejection_gamma_weight(parts, top);
    factors_store(i, weight);
    sum += weight;
  }
  for (ob_index i = first; i < last; ++i) {
    out_store(i, rejection_share(factors_load(i), sum, smallest, largest));
  }
}

#else

// One value per element, of the distribution number DISTRIBUTION.
#define DRAWS(i) (rejection_draws){(ulong)(i), ob_seed, ob_offset}
#define FIRST(i) philox((ulong)(i), ob_seed, ob_offset)

__kernel void rejection_values(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
#if DISTRIBUTION == 0  // Poisson
  const double rate = self_load(i);
  if (rate >= 0.0) {
    out_store(i, rejection_poisson(rate, FIRST(i), DRAWS(i)));
  } else {
    OB_REPORT
  }
#elif DISTRIBUTION == 1  // binomial
  out_store(i, rejection_binomial(count_load(i), prob_load(i), FIRST(i), DRAWS(i)));
#else  // gamma
  out_store(i, rejection_gamma_value(rejection_gamma(self_load(i), FIRST(i), DRAWS(i)), smallest));
#endif
}

#endif

#endif
