// Values of continuous distributions and of the geometric one, by the functions of variates.cl.

#if BITS == 32
#define OF_BITS(function) function##_float
#define V2 float2
#define FOR_ELEMENTS FOR_WORDS
#define DRAW_OF_BITS(k) words[k]
#else
#define OF_BITS(function) function##_double
#define V2 double2
#define FOR_ELEMENTS FOR_DRAWS
#define DRAW_OF_BITS DRAW
#endif

#ifndef DISTRIBUTION

// The leaky rectifier with random slopes: `noise` is a slope for elements that are not positive,
// else 1; the result is input * noise. Noise is rounded to its dtype, since the gradient multiplies
// with it.
#define USE(i, draw)                                   \
  {                                                    \
    const ob_index at = ob_offset_of(noise_layout, i); \
    const V x = self_load(i);                          \
    const V slope = OF_BITS(unit)(draw) * span + low;  \
    noise_store(at, x <= 0 ? slope : 1);               \
    out_store(i, x * noise_load(at));                  \
  }

__kernel void rrelu(OB_PARAMETERS) {
  OB_BEGIN
  FOR_ELEMENTS(count, USE)
}

#else

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
  { const V value = OF_BITS(unit)(draw) * scale + first; out_store(i, value < largest ? value : largest); }
#elif DISTRIBUTION == 1  // exponential: first is the scale, second the smallest value
#define USE(i, draw) \
  { const V value = OF_BITS(exponential)(draw) * first; out_store(i, value > second ? value : second); }
#elif DISTRIBUTION == 2  // Cauchy: first is the median, second the scale
#define USE(i, draw) out_store(i, OF_BITS(cauchy)(draw) * second + first);
#elif DISTRIBUTION == 3  // geometric: first is the scale
#define USE(i, draw) \
  { const V value = ceil(OF_BITS(exponential)(draw) * first); out_store(i, value > 1 ? value : 1); }
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
  const float2 pair0 = normals_float(own.x, own.y), pair1 = normals_float(own.z, own.w);
  vstore4((float4)(pair0, pair1), PHILOX_LANE, values);
#else
  vstore2(normals_double(own.x | ((ulong)own.y << 32), own.z | ((ulong)own.w << 32)), PHILOX_LANE, values);
#endif
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int at = PHILOX_LANE; at < some; at += OB_LOCAL) out_store((i0 + at), VALUE(values[at]));
#else
  PHILOX_ITEM(count, 128 / BITS)
  V values[128 / BITS * PHILOX_BLOCKS];
  for (int k = 0; k < 128 / BITS * PHILOX_BLOCKS; k += 2) {
    const V2 pair = OF_BITS(normals)(DRAW_OF_BITS(k), DRAW_OF_BITS(k + 1));
    values[k] = pair.x;
    values[k + 1] = pair.y;
  }
  for (int k = 0; k < some; ++k) out_store((i0 + k), VALUE(values[k]));
#endif
}
#endif

#endif
