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
