// The leaky rectifier with random slopes: `noise` is a slope for elements that are not positive,
// else 1; the result is input * noise.

#if BITS == 32
#define UNIT unit_float
#else
#define UNIT unit_double
#endif

// Noise rounded to its dtype, since the gradient multiplies with it.
#define USE(i, draw)                                   \
  {                                                    \
    const ob_index at = ob_offset_of(noise_layout, i); \
    const V x = self_load(i);                          \
    const V slope = UNIT(draw) * span + low;           \
    noise_store(at, x <= 0 ? slope : 1);               \
    out_store(i, x * noise_load(at));                  \
  }

__kernel void rrelu(OB_PARAMETERS) {
  OB_BEGIN
#if BITS == 32
  FOR_WORDS(count, USE)
#else
  FOR_DRAWS(count, USE)
#endif
}
