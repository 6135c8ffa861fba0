// Discrete Fourier transforms of complex arrays [outer, n, inner] along n, by self-sorting passes
// (Stockham): a pass of radix r, with m * r elements of n left in one transform, reads elements m
// apart and writes its results adjacently.
//
// The kernel generator defines S (float or double), V (a complex value), L (OB_LANES of them) and
// ob_index. `sign`: -1 for the forward transform. `roots`: exp(sign * 2 pi i t / n) for t < n.

typedef struct {
  ob_index dims;
  ob_index size[OB_DIMENSIONS];
  ob_index stride[OB_DIMENSIONS];
} ob_layout;

static inline ob_index offset_of(const ob_layout layout, ob_index i) {
  ob_index offset = 0;
  for (int d = (int)layout.dims - 1; d > 0; --d) {
    const ob_index rest = i / layout.size[d];
    offset += (i - rest * layout.size[d]) * layout.stride[d];
    i = rest;
  }
  return offset + i * layout.stride[0];
}

static inline V times(const V a, const V b) {
  return (V)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Copies an array of any strides to a dense one.
__kernel void read_complex(OB_POINTER(V, from), OB_POINTER(V, to), const ob_layout layout,
                           const ob_index total) {
  OB_BIND(V, from) OB_BIND(V, to)
  ITEM(total)
  to[i] = from[offset_of(layout, i)];
}

__kernel void read_real(OB_POINTER(S, from), OB_POINTER(V, to), const ob_layout layout,
                        const ob_index total) {
  OB_BIND(S, from) OB_BIND(V, to)
  ITEM(total)
  to[i] = (V)(from[offset_of(layout, i)], 0);
}

// The first `kept` elements of rows of `n`; missing elements are the conjugates that make the
// transform real.
__kernel void cut(OB_POINTER(V, from), OB_POINTER(V, to), const ob_index total, const ob_index n,
                  const ob_index kept, const S scale) {
  OB_BIND(V, from) OB_BIND(V, to)
  ITEM(total)
  const ob_index row = i / kept, k = i - row * kept;
  const V value = k < n ? from[row * n + k] : from[row * n + kept - k] * (V)(1, -1);
  to[i] = value * scale;
}

__kernel void real_parts(OB_POINTER(V, from), OB_POINTER(S, to), const ob_index total,
                         const S scale) {
  OB_BIND(V, from) OB_BIND(S, to)
  ITEM(total)
  to[i] = from[i].x * scale;
}

// The point of the unit circle at (eighth + part) / 8 of a turn, by Taylor series.
static inline V on_circle(const int eighth, const S part, const int sign) {
  const S angle = (S)0.78539816339744830962 * (eighth % 2 == 0 ? part : 1 - part);
  const S z = -angle * angle;
#define NEXT(sum, n) (1 + z / (S)((n) * ((n) + 1)) * (sum))
#ifdef OB_DOUBLE
  const S c = NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(1, 17), 15), 13), 11), 9), 7), 5), 3), 1);
  const S s =
      angle * NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(NEXT(1, 16), 14), 12), 10), 8), 6), 4), 2);
#else
  const S c = NEXT(NEXT(NEXT(NEXT(NEXT(1, 9), 7), 5), 3), 1);
  const S s = angle * NEXT(NEXT(NEXT(NEXT(1, 8), 6), 4), 2);
#endif
  // In octants 0, 3, 4 and 7 the cosine comes first.
  const bool straight = (eighth + 1) / 2 % 2 == 0;
  const S x = straight ? c : s, y = straight ? s : c;
  const S right = eighth >= 2 && eighth < 6 ? -x : x;
  const S up = eighth >= 4 ? -y : y;
  return (V)(right, sign * up);
}

__kernel void make_roots(OB_POINTER(V, to), const ob_index n, const int sign) {
  OB_BIND(V, to)
  const ob_index t = get_global_id(0);
  if (t >= n) return;
  // 8 n fits into an unsigned ob_index.
  const ob_unsigned turns = 8 * (ob_unsigned)t, eighth = turns / (ob_unsigned)n;
  to[t] = on_circle((int)eighth, (S)(turns - eighth * n) / (S)n, sign);
}

// Vectors of several complex values.
#if OB_LANES == 4
#define SWAPPED(a) (a).s10325476
#define REALS(a) (a).s00224466
#define IMAGINARIES(a) (a).s11335577
#define ALTERNATING ((L)(-1, 1, -1, 1, -1, 1, -1, 1))
#define BROADCAST(w) ((L)(w, w, w, w))
#define LOAD(p) vload8(0, (__global const S *)(p))
#define STORE(v, p) vstore8(v, 0, (__global S *)(p))
#define SPLIT(v, values) vstore8(v, 0, (S *)(values))
#define ROOTS(k) ((L)(roots[p * (k)*step], roots[(p + 1) * (k)*step], \
                      roots[(p + 2) * (k)*step], roots[(p + 3) * (k)*step]))
#else
#define SWAPPED(a) (a).s1032
#define REALS(a) (a).s0022
#define IMAGINARIES(a) (a).s1133
#define ALTERNATING ((L)(-1, 1, -1, 1))
#define BROADCAST(w) ((L)(w, w))
#define LOAD(p) vload4(0, (__global const S *)(p))
#define STORE(v, p) vstore4(v, 0, (__global S *)(p))
#define SPLIT(v, values) vstore4(v, 0, (S *)(values))
#define ROOTS(k) ((L)(roots[p * (k)*step], roots[(p + 1) * (k)*step]))
#endif

static inline L times_lanes(const L a, const L w) {
  return REALS(w) * a + IMAGINARIES(w) * ALTERNATING * SWAPPED(a);
}

// Multiplies by the square root of -1 with the transform's sign.
static inline V turned(const V a, const S sign) { return sign * (V)(-a.y, a.x); }
static inline L turned_lanes(const L a, const S sign) { return sign * ALTERNATING * SWAPPED(a); }

// Transforms of 2, 4 and 8 values of type T; `turn`: one of the functions above.
#define SHORT_TRANSFORMS(T, lanes, turn)                                                          \
  static inline void transform2##lanes(T *a, const S sign) {                                      \
    const T b = a[1];                                                                             \
    a[1] = a[0] - b;                                                                              \
    a[0] = a[0] + b;                                                                              \
  }                                                                                               \
  static inline void transform4##lanes(T *a, const S sign) {                                      \
    const T s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3], u = turn(a[1] - a[3], sign);       \
    a[0] = s + t;                                                                                 \
    a[1] = d + u;                                                                                 \
    a[2] = s - t;                                                                                 \
    a[3] = d - u;                                                                                 \
  }                                                                                               \
  static inline void transform8##lanes(T *a, const S sign) {                                      \
    T even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};                      \
    transform4##lanes(even, sign);                                                                \
    transform4##lanes(odd, sign);                                                                 \
    const S h = (S)0.70710678118654752440;                                                        \
    odd[1] = h * (odd[1] + turn(odd[1], sign));                                                   \
    odd[2] = turn(odd[2], sign);                                                                  \
    odd[3] = h * (turn(odd[3], sign) - odd[3]);                                                   \
    for (int k = 0; k < 4; ++k) {                                                                 \
      a[k] = even[k] + odd[k];                                                                    \
      a[k + 4] = even[k] - odd[k];                                                                \
    }                                                                                             \
  }

SHORT_TRANSFORMS(V, , turned)
SHORT_TRANSFORMS(L, _lanes, turned_lanes)

static inline void transform3(V *a, const S sign) {
  const V sum = a[1] + a[2], middle = a[0] - (S)0.5 * sum;
  const V d = (S)0.86602540378443864676 * turned(a[1] - a[2], sign);
  a[0] = a[0] + sum;
  a[1] = middle + d;
  a[2] = middle - d;
}

static inline void transform5(V *a, const S sign) {
  const S c1 = (S)0.30901699437494742410, c2 = (S)-0.80901699437494742410;
  const S s1 = (S)0.95105651629515357212, s2 = (S)0.58778525229247312917;
  const V t = a[1] + a[4], u = a[2] + a[3];
  const V v = turned(a[1] - a[4], sign), w = turned(a[2] - a[3], sign);
  const V m = a[0] + c1 * t + c2 * u, n = a[0] + c2 * t + c1 * u;
  const V p = s1 * v + s2 * w, q = s2 * v - s1 * w;
  a[0] = a[0] + t + u;
  a[1] = m + p;
  a[2] = n + q;
  a[3] = n - q;
  a[4] = m - p;
}

// Separates the first `kept` results of a real transform of rows of n, which was computed as a
// complex one of n / 2: even elements are real parts.
__kernel void untangle(OB_POINTER(V, from), OB_POINTER(V, to), OB_POINTER(V, roots),
                       const ob_index total, const ob_index n, const ob_index kept,
                       const S scale) {
  OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)
  ITEM(total)
  const ob_index row = i / kept, half_n = n / 2, at = i - row * kept;
  const ob_index k = at > half_n ? n - at : at;
  const V a = from[row * half_n + (k == half_n ? 0 : k)];
  const V b = from[row * half_n + (k == 0 ? 0 : half_n - k)] * (V)(1, -1);
  const V value = (S)0.5 * (a + b + times(roots[k], turned(a - b, -1)));
  to[i] = scale * (at > half_n ? value * (V)(1, -1) : value);
}

// The inverse, for rows of n / 2 + 1 elements with real transforms. The imaginary parts of the
// first and the last element are ignored.
__kernel void tangle(OB_POINTER(V, from), OB_POINTER(V, to), OB_POINTER(V, roots),
                     const ob_index total, const ob_index n) {
  OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)
  ITEM(total)
  const ob_index half_n = n / 2, row = i / half_n, k = i - row * half_n;
  __global const V *x = from + row * (half_n + 1);
  const S known = k == 0 ? 0 : 1;
  const V a = x[k] * (V)(1, known), b = x[half_n - k] * (V)(1, -known);
  to[i] = a + b + turned(times(roots[k], a - b), 1);
}

// `items` butterflies; `s`: contiguous elements, inner times the radices of earlier passes; `step`:
// n / (m * r).
#define PASS_PARAMETERS                                                                      \
  OB_POINTER(V, from), OB_POINTER(V, to), OB_POINTER(V, roots), const ob_index items,        \
      const ob_index s, const ob_index m, const ob_index step, const int sign, const S scale
// A work-item computes `width` adjacent butterflies of values of type T, `lanes` in names: s is a
// multiple of `width`.
#define PASS(name, r, lanes, T, width, READ, TIMES, WRITE)                     \
  __kernel void name##r(PASS_PARAMETERS) {                                     \
    OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)                          \
    ITEM(items)                                                                \
    const ob_index across = s / (width);                                       \
    const ob_index rest = i / across, outer = rest / m;                        \
    const ob_index q = (i - rest * across) * (width), p = rest - outer * m;    \
    __global const V *x = from + outer * (s * m * r) + q + s * p;              \
    T a[r];                                                                    \
    for (int j = 0; j < r; ++j) a[j] = READ(x + s * m * j);                    \
    transform##r##lanes(a, (S)sign);                                           \
    __global V *y = to + outer * (s * m * r) + q + s * r * p;                  \
    WRITE(scale * a[0], y);                                                    \
    for (int k = 1; k < r; ++k) {                                              \
      WRITE(scale * TIMES(a[k], roots[p * k * step]), y + s * k);              \
    }                                                                          \
  }

#define READ_ONE(p) (*(p))
#define WRITE_ONE(v, p) (*(p) = (v))
#define ONE_PASS(r) PASS(pass, r, , V, 1, READ_ONE, times, WRITE_ONE)
ONE_PASS(2)
ONE_PASS(3)
ONE_PASS(4)
ONE_PASS(5)
ONE_PASS(8)

static inline L times_root(const L a, const V w) { return times_lanes(a, BROADCAST(w)); }
#define LANES_PASS(r) PASS(lanes_pass, r, _lanes, L, OB_LANES, LOAD, times_root, STORE)
LANES_PASS(2)
LANES_PASS(4)
LANES_PASS(8)

// The first pass along rows: s is 1, and m a multiple of OB_LANES.
#define FIRST_PASS(r)                                              \
  __kernel void first_pass##r(PASS_PARAMETERS) {                   \
    OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)              \
    ITEM(items)                                                    \
    const ob_index along = m / OB_LANES, outer = i / along;        \
    const ob_index p = (i - outer * along) * OB_LANES;             \
    __global const V *x = from + outer * (m * r) + p;              \
    L a[r];                                                        \
    for (int j = 0; j < r; ++j) a[j] = LOAD(x + m * j);            \
    transform##r##_lanes(a, (S)sign);                              \
    __global V *y = to + outer * (m * r) + r * p;                  \
    for (int k = 0; k < r; ++k) {                                  \
      V values[OB_LANES];                                          \
      SPLIT(scale * times_lanes(a[k], ROOTS(k)), values);          \
      for (int l = 0; l < OB_LANES; ++l) y[r * l + k] = values[l]; \
    }                                                              \
  }

FIRST_PASS(2)
FIRST_PASS(4)
FIRST_PASS(8)

// Any radix; one work-item per result.
__kernel void pass_any(PASS_PARAMETERS, const ob_index r) {
  OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)
  ITEM(items)
  const ob_index line = i / s, rest = line / r, outer = rest / m;
  const ob_index q = i - line * s, k = line - rest * r, p = rest - outer * m;
  __global const V *x = from + outer * (s * m * r) + q + s * p;
  V sum = 0;
  ob_index turn = 0;  // j * k modulo r
  for (ob_index j = 0; j < r; ++j) {
    sum += times(x[s * m * j], roots[turn * m * step]);
    turn += k;
    turn = turn >= r ? turn - r : turn;
  }
  to[i] = scale * times(sum, roots[p * k * step]);
}

// Bluestein's algorithm: j k = (j^2 + k^2 - (k - j)^2) / 2 turns the transform into a convolution
// with a chirp, computed by transforms of any length `long_n` >= 2 n - 1.
__kernel void make_chirp(OB_POINTER(V, to), const ob_index n, const int sign) {
  OB_BIND(V, to)
  ITEM(n)
  const ulong t = i, turns = 4 * (t * t % (2 * (ulong)n)), eighth = turns / n;
  to[i] = on_circle((int)eighth, (S)(turns - eighth * n) / (S)n, sign);
}

// The filter of the convolution: conjugates of the chirp at both ends.
__kernel void chirp_ends(OB_POINTER(V, from), OB_POINTER(V, to), const ob_index n,
                         const ob_index long_n) {
  OB_BIND(V, from) OB_BIND(V, to)
  const ob_index t = get_global_id(0);
  if (t >= long_n) return;
  const ob_index u = min(t, long_n - t);
  to[t] = u < n ? from[u] * (V)(1, -1) : (V)(0, 0);
}

// Multiplies by the chirp, from rows of `n` elements to rows of `long_n`.
__kernel void with_chirp(OB_POINTER(V, from), OB_POINTER(V, to), OB_POINTER(V, factors),
                         const ob_index items, const ob_index s, const ob_index n,
                         const ob_index long_n, const ob_index count, const S scale) {
  OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, factors)
  ITEM(items)
  const ob_index rest = i / s, outer = rest / long_n;
  const ob_index q = i - rest * s, t = rest - outer * long_n;
  to[i] = t < count ? scale * times(from[(outer * n + t) * s + q], factors[t]) : (V)(0, 0);
}
