// Values of the Poisson, binomial and gamma distributions, from an open number of draws. This text
// is compiled as OpenCL C, and as C++ by csrc/aten/random/rejection_values.cpp: both give the same
// bits, since it uses integers and + - * / sqrt floor of float64 only, in an order that neither
// changes.
//
// Element i has draws of its own: block k is the one with the counter (i, offset + k), in the
// notation of csrc/aten/random/philox.h. An operator reserves REJECTION_BLOCKS offsets. An attempt
// takes one block, and all attempts fail with a probability below 1e-20; then comes the mode.
//
// The methods are those of
//   W. Hoermann, "The transformed rejection method for generating Poisson random variables",
//     Insurance: Mathematics and Economics 12 (1993): PTRS, for rates from 10 on;
//   W. Hoermann, "The generation of binomial random variates", Journal of Statistical Computation
//     and Simulation 46 (1993): BTRS, for n * p from 10 on;
//   G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM
//     Transactions on Mathematical Software 26 (2000);
// and below 10 inversion of one uniform number, by sequential search from 0 on.

#ifdef __cplusplus
#define REJECTION_TABLE static const
#else
#pragma OPENCL FP_CONTRACT OFF
#define REJECTION_TABLE __constant
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

// A number in (0, 1), of 53 bits.
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

// log(1 + x), x > -1.
static inline double rejection_log1p(const double x) {
  if (x > -0.29 && x < 0.41) return rejection_log_of_ratio(x / (2.0 + x));
  return rejection_log(1.0 + x);
}

// exp(x), x <= 0: 0 where that would not be a normal number.
static inline double rejection_exp(const double x) {
  if (!(x > -708.0)) return 0.0;
  const int turns = (int)(x * 1.4426950408889634 - 0.5);
  const double r = (x - turns * REJECTION_LOG2_HIGH) - turns * REJECTION_LOG2_LOW;
  // The exponential series, by halves: fewer steps that wait for one another.
  const double r2 = r * r, r4 = r2 * r2, r8 = r4 * r4;
  const double low = (1.0 + r) + r2 * (0.5 + r * (1.0 / 6));
  const double middle = (1.0 / 24 + r * (1.0 / 120)) + r2 * (1.0 / 720 + r * (1.0 / 5040));
  const double high = (1.0 / 40320 + r * (1.0 / 362880)) +
                      r2 * (1.0 / 3628800 + r * (1.0 / 39916800)) +
                      r4 * (1.0 / 479001600 + r * (1.0 / 6227020800));
  const double sum = low + (r4 * middle + r8 * high);
  return sum * as_double((ulong)(turns + 1023) << 52);
}

REJECTION_TABLE double rejection_tails[10] = {
    0.08106146679532726,  0.0413406959554093,   0.02767792568499834, 0.020790672103765093,
    0.016644691189821193, 0.013876128823070748, 0.01189670994589177, 0.010411265261972096,
    0.009255462182712733, 0.00833056343336287};

// What Stirling's formula lacks, k >= 0 a whole number:
// log(k!) - (log(2 * pi) / 2 + (k + 1/2) * log(k + 1) - (k + 1))
static inline double rejection_tail(const double k) {
  if (k < 10.0) return rejection_tails[(int)k];
  const double x = 1.0 / (k + 1.0), s = x * x;
  double sum = -691.0 / 360360;
  sum = sum * s + 1.0 / 1188;
  sum = sum * s - 1.0 / 1680;
  sum = sum * s + 1.0 / 1260;
  sum = sum * s - 1.0 / 360;
  sum = sum * s + 1.0 / 12;
  return sum * x;
}

// rate >= 0
static inline double rejection_poisson(const double rate, REJECTION_WORDS words,
                                       const rejection_draws draws) {
  if (rate < 10.0) {
    double unit = rejection_unit(words.x, words.y), mass = rejection_exp(-rate), k = 0.0;
    while (unit > mass && k < 100.0) {
      unit -= mass;
      k += 1.0;
      mass *= rate / k;
    }
    return k;
  }
  if (rate > 1e300) return rate;
  const double b = 0.931 + 2.53 * sqrt(rate), a = -0.059 + 0.02483 * b;
  const double tight = 0.9277 - 3.6224 / (b - 2.0);
  for (uint block = 1; block <= REJECTION_BLOCKS; ++block) {
    const double u = rejection_unit(words.x, words.y) - 0.5;
    const double v = rejection_unit(words.z, words.w);
    const double s = 0.5 - (u < 0.0 ? -u : u);
    const double k = floor((2.0 * a / s + b) * u + rate + 0.43);
    if (s >= 0.07 && v <= tight) return k;
    if (k >= 0.0 && (s >= 0.013 || v <= s)) {
      // The logarithm of k's probability, by Stirling's formula.
      const double n = k + 1.0;
      const double log_mass = (n - rate) + k * rejection_log1p((rate - n) / n) -
                              0.5 * rejection_log(n) - 0.9189385332046728 - rejection_tail(k);
      const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
      if (rejection_log(v * inverse_alpha / (a / (s * s) + b)) <= log_mass) return k;
    }
    words = rejection_block(draws, block);
  }
  return floor(rate);
}

// n a whole number >= 1, 0 < p <= 1/2
static inline double rejection_binomial_half(const double n, const double p, REJECTION_WORDS words,
                                             const rejection_draws draws) {
  const double ratio = p / (1.0 - p);
  if (n * p < 10.0) {
    double unit = rejection_unit(words.x, words.y);
    double mass = rejection_exp(n * rejection_log1p(-p)), k = 0.0;
    while (unit > mass && k < n && k < 100.0) {
      unit -= mass;
      mass *= ratio * (n - k) / (k + 1.0);
      k += 1.0;
    }
    return k;
  }
  if (n > 1e300) return n;
  const double deviation = sqrt(n * p * (1.0 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double tight = 0.92 - 4.2 / b, mode = floor((n + 1.0) * p);
  for (uint block = 1; block <= REJECTION_BLOCKS; ++block) {
    const double u = rejection_unit(words.x, words.y) - 0.5;
    const double v = rejection_unit(words.z, words.w);
    const double s = 0.5 - (u < 0.0 ? -u : u);
    const double k = floor((2.0 * a / s + b) * u + n * p + 0.5);
    if (k >= 0.0 && k <= n) {
      if (s >= 0.07 && v <= tight) return k;
      // The logarithm of the quotient of the probabilities of k and the mode, by Stirling's
      // formula, its large terms combined so that nothing cancels.
      const double log_quotient =
          (k - mode) * rejection_log(ratio * ((n - k + 1.0) / (k + 1.0))) +
          (mode + 0.5) * rejection_log1p((mode - k) / (k + 1.0)) +
          (n - mode + 0.5) * rejection_log1p((k - mode) / (n - k + 1.0)) +
          ((rejection_tail(mode) + rejection_tail(n - mode)) -
           (rejection_tail(k) + rejection_tail(n - k)));
      const double alpha = (2.83 + 5.1 / b) * deviation;
      if (rejection_log(v * alpha / (a / (s * s) + b)) <= log_quotient) return k;
    }
    words = rejection_block(draws, block);
  }
  return mode;
}

// Of any count and probability: what lies outside of the distribution counts as its nearest end.
static inline double rejection_binomial(const double count, const double p,
                                        const REJECTION_WORDS words, const rejection_draws draws) {
  if (count <= 0.0 || p <= 0.0) return 0.0;
  if (p >= 1.0) return count;
  if (count != count || p != p) return count + p;
  const double n = floor(count);
  if (n == 0.0) return p > 0.5 ? count : 0.0;
  if (p <= 0.5) return rejection_binomial_half(n, p, words, draws);
  return count - rejection_binomial_half(n, 1.0 - p, words, draws);
}

// A standard normal: by the transformation of Box and Muller, with the angle's sine, of which one
// quarter to either side of 0 has all values.
static inline double rejection_normal(const REJECTION_WORDS words) {
  const double radius = sqrt(-2.0 * rejection_log(rejection_unit(words.x, words.y)));
  // In (-1, 1), of quarters of a turn.
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

// A gamma variable is factor * exp(exponent), which may be too small for a number.
typedef struct {
  double factor, exponent;
} rejection_gamma_parts;

static inline rejection_gamma_parts rejection_gamma(const double alpha, REJECTION_WORDS words,
                                                    const rejection_draws draws) {
  rejection_gamma_parts parts = {1.0, -INFINITY};
  if (!(alpha > 0.0)) return parts;
  const bool boosted = alpha < 1.0;
  const double d = (boosted ? alpha + 1.0 : alpha) - 1.0 / 3, c = 1.0 / sqrt(9.0 * d);
  parts.factor = d;
  parts.exponent = 0.0;
  if (boosted) {
    // The last block: attempts use those before.
    const REJECTION_WORDS last = rejection_block(draws, REJECTION_BLOCKS - 1);
    parts.exponent = rejection_log(rejection_unit(last.x, last.y)) / alpha;
  }
  for (uint block = 1; block < REJECTION_BLOCKS; ++block) {
    const double x = rejection_normal(words), t = c * x, y = 1.0 + t;
    if (y > 0.0) {
      const double v = y * y * y, square = x * x;
      const double u = ((double)words.w + 0.5) * 2.3283064365386963e-10;
      // 1 - v + log(v), its large terms combined so that nothing cancels
      if (u < 1.0 - 0.0331 * (square * square) ||
          rejection_log(u) <
              0.5 * square + d * (3.0 * (rejection_log1p(t) - t) - t * t * (3.0 + t))) {
        parts.factor = d * v;
        return parts;
      }
    }
    words = rejection_block(draws, block);
  }
  return parts;
}

// The value itself, at least `smallest`.
static inline double rejection_gamma_value(const rejection_gamma_parts parts,
                                           const double smallest) {
  const double value = parts.exponent == 0.0 ? parts.factor
                                             : parts.factor * rejection_exp(parts.exponent);
  return value > smallest ? value : smallest;
}

// The value relative to one with the exponent `largest` of all.
static inline double rejection_gamma_weight(const rejection_gamma_parts parts,
                                            const double largest) {
  if (parts.exponent == largest) return parts.factor;
  return parts.factor * rejection_exp(parts.exponent - largest);
}

// A weight's part of a sum, between two limits.
static inline double rejection_share(const double weight, const double sum, const double smallest,
                                     const double largest) {
  const double share = weight / sum;
  if (share > largest) return largest;
  return share > smallest ? share : smallest;
}
