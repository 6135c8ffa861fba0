// Discrete Fourier transforms of complex arrays [outer, n, inner] along n, by passes that sort
// themselves (Stockham): a pass of radix r over arrays of which m * r elements along n are still
// one transform reads elements that are m apart and writes its results next to each other.
//
// The engine defines S (float or double), V (a complex value) and ob_index. `sign` is -1 for the
// forward transform. `roots` holds exp(sign * 2 pi i t / n) for t < n.

typedef struct {
  ob_index dims;
  ob_index size[OB_DIMENSIONS];
  ob_index stride[OB_DIMENSIONS];
} ob_layout;

static inline ob_index place_of(const ob_layout layout, ob_index i) {
  ob_index place = 0;
  for (int d = (int)layout.dims - 1; d >= 0; --d) {
    const ob_index rest = i / layout.size[d];
    place += (i - rest * layout.size[d]) * layout.stride[d];
    i = rest;
  }
  return place;
}

static inline V times(const V a, const V b) {
  return (V)(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

// Makes a dense array of one with any strides.
__kernel void read_complex(OB_POINTER(V, from), OB_POINTER(V, to), const ob_layout layout,
                           const ob_index total) {
  OB_BIND(V, from) OB_BIND(V, to)
  const ob_index i = get_global_id(0);
  if (i < total) to[i] = from[place_of(layout, i)];
}

__kernel void read_real(OB_POINTER(S, from), OB_POINTER(V, to), const ob_layout layout,
                        const ob_index total) {
  OB_BIND(S, from) OB_BIND(V, to)
  const ob_index i = get_global_id(0);
  if (i < total) to[i] = (V)(from[place_of(layout, i)], 0);
}

// Of rows of `n` elements the first `kept`; where there are fewer, the others are the conjugates
// that make the transform real.
__kernel void cut(OB_POINTER(V, from), OB_POINTER(V, to), const ob_index total, const ob_index n,
                  const ob_index kept, const S scale) {
  OB_BIND(V, from) OB_BIND(V, to)
  const ob_index i = get_global_id(0);
  if (i >= total) return;
  const ob_index row = i / kept, k = i - row * kept;
  const V value = k < n ? from[row * n + k] : from[row * n + kept - k] * (V)(1, -1);
  to[i] = value * scale;
}

__kernel void real_parts(OB_POINTER(V, from), OB_POINTER(S, to), const ob_index total,
                         const S scale) {
  OB_BIND(V, from) OB_BIND(S, to)
  const ob_index i = get_global_id(0);
  if (i < total) to[i] = from[i].x * scale;
}

// Angles are reduced to an eighth of the circle in integers.
static inline V root_of(const ulong t, const ulong n, const int sign) {
  const ulong eighth = 8 * t / n;
  const S part = (S)(8 * t - eighth * n) / (S)n;
  const S angle = (S)0.78539816339744830962 * (eighth % 2 == 0 ? part : 1 - part);
  const S c = cos(angle), s = sin(angle);
  // The octants 0, 3, 4, 7 have the cosine first.
  const bool straight = (eighth + 1) / 2 % 2 == 0;
  const S x = straight ? c : s, y = straight ? s : c;
  const S right = eighth >= 2 && eighth < 6 ? -x : x;
  const S up = eighth >= 4 ? -y : y;
  return (V)(right, sign * up);
}

__kernel void make_roots(OB_POINTER(V, to), const ob_index n, const int sign) {
  OB_BIND(V, to)
  const ob_index t = get_global_id(0);
  if (t < n) to[t] = root_of(t, n, sign);
}

// By the square root of -1 with the transform's sign.
static inline V turned(const V a, const S sign) { return sign * (V)(-a.y, a.x); }

static inline void transform2(V *a, const S sign) {
  const V b = a[1];
  a[1] = a[0] - b;
  a[0] = a[0] + b;
}

static inline void transform3(V *a, const S sign) {
  const V sum = a[1] + a[2], middle = a[0] - (S)0.5 * sum;
  const V d = (S)0.86602540378443864676 * turned(a[1] - a[2], sign);
  a[0] = a[0] + sum;
  a[1] = middle + d;
  a[2] = middle - d;
}

static inline void transform4(V *a, const S sign) {
  const V s = a[0] + a[2], d = a[0] - a[2], t = a[1] + a[3], u = turned(a[1] - a[3], sign);
  a[0] = s + t;
  a[1] = d + u;
  a[2] = s - t;
  a[3] = d - u;
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

static inline void transform8(V *a, const S sign) {
  V even[4] = {a[0], a[2], a[4], a[6]}, odd[4] = {a[1], a[3], a[5], a[7]};
  transform4(even, sign);
  transform4(odd, sign);
  const S h = (S)0.70710678118654752440;
  odd[1] = h * (odd[1] + turned(odd[1], sign));
  odd[2] = turned(odd[2], sign);
  odd[3] = h * (turned(odd[3], sign) - odd[3]);
  for (int k = 0; k < 4; ++k) {
    a[k] = even[k] + odd[k];
    a[k + 4] = even[k] - odd[k];
  }
}

// `items` butterflies; `s` counts what lies next to each other: inner, times the radices of earlier
// passes; `step` is n / (m * r).
#define PASS(r)                                                                               \
  __kernel void pass##r(OB_POINTER(V, from), OB_POINTER(V, to), OB_POINTER(V, roots),         \
                        const ob_index items, const ob_index s, const ob_index m,             \
                        const ob_index step, const int sign, const S scale) {                 \
    OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)                                         \
    const ob_index i = get_global_id(0);                                                      \
    if (i >= items) return;                                                                   \
    const ob_index rest = i / s, outer = rest / m;                                            \
    const ob_index q = i - rest * s, p = rest - outer * m;                                    \
    __global const V *x = from + outer * (s * m * r) + q + s * p;                             \
    V a[r];                                                                                   \
    for (int j = 0; j < r; ++j) a[j] = x[s * m * j];                                          \
    transform##r(a, (S)sign);                                                                 \
    __global V *y = to + outer * (s * m * r) + q + s * r * p;                                 \
    y[0] = scale * a[0];                                                                      \
    for (int k = 1; k < r; ++k) y[s * k] = scale * times(a[k], roots[p * k * step]);          \
  }

PASS(2)
PASS(3)
PASS(4)
PASS(5)
PASS(8)

// Any radix; a work item for each result.
__kernel void pass_any(OB_POINTER(V, from), OB_POINTER(V, to), OB_POINTER(V, roots),
                       const ob_index items, const ob_index s, const ob_index m,
                       const ob_index step, const int sign, const S scale, const ob_index r) {
  OB_BIND(V, from) OB_BIND(V, to) OB_BIND(V, roots)
  const ob_index i = get_global_id(0);
  if (i >= items) return;
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

// Bluestein's algorithm: j k = (j^2 + k^2 - (k - j)^2) / 2 makes of the transform a convolution with
// a chirp, which transforms of any length `long_n` from 2 n - 1 on compute.
static inline V chirp(const ulong t, const ulong n, const int sign) {
  return root_of(t * t % (2 * n), 2 * n, sign);
}

__kernel void make_chirp(OB_POINTER(V, to), const ob_index n, const ob_index long_n,
                         const int sign) {
  OB_BIND(V, to)
  const ob_index t = get_global_id(0);
  if (t >= long_n) return;
  const ob_index u = min(t, long_n - t);
  to[t] = u < n ? chirp(u, n, -sign) : (V)(0, 0);
}

__kernel void into_chirp(OB_POINTER(V, from), OB_POINTER(V, to), const ob_index items,
                         const ob_index s, const ob_index n, const ob_index long_n,
                         const int sign) {
  OB_BIND(V, from) OB_BIND(V, to)
  const ob_index i = get_global_id(0);
  if (i >= items) return;
  const ob_index rest = i / s, outer = rest / long_n;
  const ob_index q = i - rest * s, t = rest - outer * long_n;
  to[i] = t < n ? times(from[(outer * n + t) * s + q], chirp(t, n, sign)) : (V)(0, 0);
}

__kernel void by_chirp(OB_POINTER(V, to), OB_POINTER(V, factors), const ob_index items,
                       const ob_index s, const ob_index long_n) {
  OB_BIND(V, to) OB_BIND(V, factors)
  const ob_index i = get_global_id(0);
  if (i < items) to[i] = times(to[i], factors[i / s % long_n]);
}

__kernel void out_of_chirp(OB_POINTER(V, from), OB_POINTER(V, to), const ob_index items,
                           const ob_index s, const ob_index n, const ob_index long_n,
                           const int sign, const S scale) {
  OB_BIND(V, from) OB_BIND(V, to)
  const ob_index i = get_global_id(0);
  if (i >= items) return;
  const ob_index rest = i / s, outer = rest / n;
  const ob_index q = i - rest * s, k = rest - outer * n;
  to[i] = scale * times(from[(outer * long_n + k) * s + q], chirp(k, n, sign));
}
