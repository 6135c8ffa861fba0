// Values of continuous distributions and of the geometric one, by the functions of
// csrc/random/distributions.h. BITS: 64 for float64, else 32.

#pragma OPENCL FP_CONTRACT OFF

#if BITS == 32
static inline float unit(const uint word) { return (float)(int)(word >> 8) * 0x1p-24f; }

static inline float exponential(const uint word) {
  const bool near_one = word >= 0xB504F334u;
  const float from_one = ((float)(~word) + 0.5f) * 0x1p-32f;
  const float u = ((float)word + 0.5f) * 0x1p-32f;
  const uint shifted = as_uint(u) - 0x3F3504F3u;
  const int exponent = (int)shifted >> 23;
  const float mantissa = as_float((shifted & 0x007FFFFFu) + 0x3F3504F3u);
  const float f = near_one ? -from_one : mantissa - 1.0f;
  const float e = near_one ? 0.0f : (float)exponent;
  float tail = 0.07149754f;
  tail = tail * f - 0.11571201f;
  tail = tail * f + 0.11661511f;
  tail = tail * f - 0.124110505f;
  tail = tail * f + 0.14249937f;
  tail = tail * f - 0.1666848f;
  tail = tail * f + 0.20000708f;
  tail = tail * f - 0.2499999f;
  tail = tail * f + 0.3333333f;
  const float square = f * f;
  const float small = f * square * tail - 0.5f * square + e * -2.12194440e-4f;
  return -((small + f) + e * 0.693359375f);
}

// (sine, cosine) of an angle in [-pi/4, pi/4].
static inline float2 octant(const float angle) {
  const float square = angle * angle;
  float sine = -0.0001958795f;
  sine = sine * square + 0.008332749f;
  sine = sine * square - 0.16666664f;
  float cosine = 2.4547991e-05f;
  cosine = cosine * square - 0.0013888304f;
  cosine = cosine * square + 0.041666664f;
  return (float2)(angle + angle * square * sine,
                  1.0f + (square * square * cosine - 0.5f * square));
}

static inline float2 normals(const uint even, const uint odd) {
  const float radius = sqrt(2.0f * exponential(even));
  const uint quadrant = (odd + 0x20000000u) >> 30;
  const float2 o = octant((float)(int)(odd - (quadrant << 30)) * 1.4629180792671596e-09f);
  const bool swapped = (quadrant & 1) != 0;
  const float cosine = swapped ? o.x : o.y, sine = swapped ? o.y : o.x;
  return (float2)(((quadrant + 1) & 2) != 0 ? -radius * cosine : radius * cosine,
                  (quadrant & 2) != 0 ? -radius * sine : radius * sine);
}

static inline float cauchy(const uint word) {
  const bool negative = (word & 0x80000000u) == 0;
  const uint magnitude = negative ? 0x7FFFFFFFu - word : word - 0x80000000u;
  const bool steep = magnitude >= 0x40000000u;
  const uint rest = steep ? 0x7FFFFFFFu - magnitude : magnitude;
  const float2 o = octant(((float)(int)rest + 0.5f) * 7.314590396335798e-10f);
  const float tangent = steep ? o.y / o.x : o.x / o.y;
  return negative ? -tangent : tangent;
}
#define V2 float2
#define FOR_ELEMENTS FOR_WORDS
#define DRAW_OF_BITS(k) words[k]
#else
static inline double unit(const ulong draw) { return (double)(long)(draw >> 11) * 0x1p-53; }

static inline double exponential(const ulong draw) {
  return (draw >> 63) != 0 ? -log1p(-((double)(~draw) + 0.5) * 0x1p-64)
                           : -log(((double)draw + 0.5) * 0x1p-64);
}

static inline double2 normals(const ulong even, const ulong odd) {
  const double radius = sqrt(2.0 * exponential(even));
  const double angle = (double)(long)odd * 0x1p-63 * M_PI;
  return (double2)(radius * cos(angle), radius * sin(angle));
}

static inline double cauchy(const ulong draw) {
  const bool negative = (draw >> 63) == 0;
  const ulong magnitude = (negative ? ~draw : draw) & 0x7FFFFFFFFFFFFFFFul;
  const bool steep = magnitude >= (1ul << 62);
  const ulong rest = steep ? 0x7FFFFFFFFFFFFFFFul - magnitude : magnitude;
  const double tangent = tan(((double)rest + 0.5) * 0x1p-64 * M_PI);
  return (negative ? -1.0 : 1.0) * (steep ? 1.0 / tangent : tangent);
}
#define V2 double2
#define FOR_ELEMENTS FOR_DRAWS
#define DRAW_OF_BITS DRAW
#endif

#if DISTRIBUTION == 0  // uniform between first and second
// The largest number below `second` in a type with SURPLUS fewer mantissa bits than float.
static inline V next_below(const V second) {
#if BITS == 64
  return nextafter(second, (V)-INFINITY);
#else
  if (second == 0) return -1.401298464e-45f;
  return as_float(as_int(second) + (second > 0 ? -(1 << SURPLUS) : 1 << SURPLUS));
#endif
}
#define USE(i, draw) \
  { const V value = unit(draw) * scale + first; out_store(i, value < largest ? value : largest); }
#elif DISTRIBUTION == 1  // exponential: first is the scale, second the smallest value
#define USE(i, draw) \
  { const V value = exponential(draw) * first; out_store(i, value > second ? value : second); }
#elif DISTRIBUTION == 2  // Cauchy: first is the median, second the scale
#define USE(i, draw) out_store(i, cauchy(draw) * second + first);
#elif DISTRIBUTION == 3  // geometric: first is the scale
#define USE(i, draw) \
  { const V value = ceil(exponential(draw) * first); out_store(i, value > 1 ? value : 1); }
#endif

#if DISTRIBUTION <= 3
__kernel void distribution(OB_PARAMETERS) {
  OB_BEGIN
#if DISTRIBUTION == 0
  const V scale = second - first;
  const V largest = first < second ? next_below(second) : first;
#endif
  FOR_ELEMENTS(count, USE)
}
#else
#if DISTRIBUTION == 4  // normal: first is the mean, second the deviation
#define VALUE(z) ((z) * second + first)
#elif DISTRIBUTION == 5  // logarithmic normal
#define VALUE(z) exp((z) * second + first)
#endif
__kernel void distribution(OB_PARAMETERS) {
  OB_BEGIN
#if OB_LOCAL > 1
  // A work-item computes both numbers of a pair; then they are exchanged.
#define PART (128 / BITS)
  __local V values[PART * OB_LOCAL];
  PHILOX_GROUP(count, PART)
  const uint4 own = PHILOX_OWN;
#if BITS == 32
  const float2 pair0 = normals(own.x, own.y), pair1 = normals(own.z, own.w);
  vstore4((float4)(pair0, pair1), PHILOX_LANE, values);
#else
  vstore2(normals(own.x | ((ulong)own.y << 32), own.z | ((ulong)own.w << 32)), PHILOX_LANE, values);
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int at = PHILOX_LANE; at < some; at += OB_LOCAL) out_store((i0 + at), VALUE(values[at]));
#else
  PHILOX_ITEM(count, 128 / BITS)
  V values[128 / BITS * PHILOX_BLOCKS];
  for (int k = 0; k < 128 / BITS * PHILOX_BLOCKS; k += 2) {
    const V2 pair = normals(DRAW_OF_BITS(k), DRAW_OF_BITS(k + 1));
    values[k] = pair.x;
    values[k + 1] = pair.y;
  }
  for (int k = 0; k < some; ++k) out_store((i0 + k), VALUE(values[k]));
#endif
}
#endif
