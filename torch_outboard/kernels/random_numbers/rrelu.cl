// The leaky rectifier with random slopes: `noise` is a slope for elements that are not positive,
// else 1; the result is input * noise.

#pragma OPENCL FP_CONTRACT OFF

static inline V slope_of(
#if BITS == 32
    const uint draw, const V low, const V span) {
  return (float)(int)(draw >> 8) * 0x1p-24f * span + low;
#else
    const ulong draw, const V low, const V span) {
  return (double)(long)(draw >> 11) * 0x1p-53 * span + low;
#endif
}

// Noise rounded to its dtype, since the gradient multiplies with it.
#define USE(i, draw)                                         \
  {                                                          \
    const ob_index at = ob_place(noise_layout, i);           \
    const V x = self_load(i);                                \
    noise_store(at, x <= 0 ? slope_of(draw, low, span) : 1); \
    out_store(i, x * noise_load(at));                        \
  }

__kernel void rrelu(OB_PARAMETERS) {
  OB_BEGIN
#if BITS == 32
  FOR_WORDS(count, USE)
#else
  FOR_DRAWS(count, USE)
#endif
}
