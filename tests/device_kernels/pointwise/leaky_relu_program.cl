#define OB_INDEX uint
#define OB_ADJACENT 1
#define OB_CHUNK 4
#define OB_PARTS 4
#define OB_TILE 32
#define OB_DIMENSIONS 12
#define OB_CROSSED 0
#define OB_CALLS 0
#define OB_VLOAD vload4
#define OB_VSTORE vstore4
#define OB_FOR_COUNT(k) _Pragma("unroll") for (uint k = 0; k < OB_WIDTH; ++k) if (k < count)
#define T float4
#define M int4
#define S float
#define C(x) (float4)(x)
#define OB_ANY(m) any(m)
#define OB_WIDTH 4
#define OB_BITS(x) as_int4(x)
#define OB_VALUE(x) as_float4(x)
static inline T ob_result0(T self, T negative_slope) { return (self > C(0)) ? self : self * negative_slope; }
static inline void ob_write0(__global float *p, OB_INDEX at, OB_INDEX stride, uint count, T result) {
  const float4 value = result;
  if (stride == 1 && count == OB_WIDTH) {
    if (OB_ADJACENT && (size_t)(p + at) % 16 == 0) *(__global float4 *)(p + at) = value;
    else vstore4(value, 0, p + at);
  } else {
    float each[OB_WIDTH];
    OB_VSTORE(value, 0, each);
    OB_FOR_COUNT(k) p[(at + k * stride)] = each[k];
  }
}
static inline T ob_read0(__global float *p, OB_INDEX at, OB_INDEX stride, uint count) {
  float4 value;
  if (stride == 1 && count == OB_WIDTH) {
    if (OB_ADJACENT && (size_t)(p + at) % 16 == 0) value = (*(const __global float4 *)(p + at));
    else value = vload4(0, p + at);
  } else if (stride == 0) {
    value = (float4)(p[at]);
  } else {
    float each[OB_WIDTH];
    OB_VSTORE((float4)(1), 0, each);
    OB_FOR_COUNT(k) each[k] = p[(at + k * stride)];
    value = OB_VLOAD(0, each);
  }
  return value;
}
#define OB_PARAMETERS OB_POINTER(float, out0), OB_POINTER(float, in0), float scalar0
#define OB_FLAG_PARAMETER
#define OB_BEGIN OB_BIND(float, out0) OB_BIND(float, in0) const T s0 = (T)(scalar0);
#define OB_POINTER_COUNT 2
#define OB_FOR_POINTERS(f) f(0) f(1)
#define OB_FOR_READS(f) f(0, 1, float)
#define OB_COMPUTE(at, step, n) const T x0 = ob_read0(in0, at(1), step(1), n); const T r0 = ob_result0(x0, s0); ob_write0(out0, at(0), step(0), n, r0);
#define OB_END
