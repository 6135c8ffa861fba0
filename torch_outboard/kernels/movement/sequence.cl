// Evenly spaced numbers, and the identity matrix.

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
