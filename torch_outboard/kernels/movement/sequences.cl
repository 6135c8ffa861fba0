// Tensors of numbers that depend on their index alone.

#if defined(LOGARITHMIC)

// Evenly spaced numbers from start to end inclusive; LOGARITHMIC: powers of `base`.

__kernel void linspace(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const R step = count > 1 ? (end - start) / (R)(count - 1) : (R)0;
  // Computed from the nearer end, so that both ends are exact.
  const R x = i < count / 2 || count == 1 ? start + step * (R)i : end - step * (R)(count - 1 - i);
#if LOGARITHMIC && OB_COMPLEX
  // A power of a negative base: angle pi.
  const R size = pow(fabs(base), x);
  out_store(i, base < 0 ? (V)(size * cospi(x), size * sinpi(x)) : (V)(size, 0));
#elif LOGARITHMIC
  out_store(i, (V)pow(base, x));
#elif OB_COMPLEX
  out_store(i, (V)(x, 0));
#else
  out_store(i, (V)x);
#endif
}

#elif IDENTITY

// The identity matrix.

#if OB_COMPLEX
#define OB_NUMBER(x) (V)((x), 0)
#else
#define OB_NUMBER(x) (V)(x)
#endif

__kernel void eye(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  out_store(i, OB_NUMBER(i / columns == i % columns));
}

#else

// start, start + step, start + 2 * step ...

__kernel void arange(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
#if OB_FLOATING
  out_store(i, fma(step, (V)i, start));
#else
  out_store(i, (V)(start + step * (V)i));
#endif
}

#endif
