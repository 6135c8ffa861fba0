// Norms of a list of tensors. ops/sources/reduction.py writes the macros before them. A work-group
// of `partial_norms` reduces a part of one tensor; a work-group of `norms` combines the parts of
// one tensor. Ends are counted in groups of the first kernel.

// Combines the sums of all work-items for the first one.
#define SUM_OF_GROUP               \
  __local S sums[OB_LOCAL];        \
  sums[lane] = sum;                \
  barrier(CLK_LOCAL_MEM_FENCE);    \
  if (lane != 0) return;           \
  for (uint k = 1; k < lanes; ++k) sum = OB_BOTH(sum, sums[k]);

__kernel void partial_norms(OB_INPUTS OB_POINTER(S, partial), ob_calls calls) {
  OB_BIND(S, partial)
  __global X *in;
  OB_SELECT_CALL
  const uint lane = get_local_id(0), lanes = OB_LOCAL;
  V a = (V)(0);
  S sum = 0;
  for (uint part = 0; part < OB_PARTS; ++part) {
    uint i = ((group * OB_PARTS + part) * lanes + lane) * OB_CHUNK;
    if (i >= total) break;
    const uint end = total - i < OB_CHUNK ? total : i + OB_CHUNK;
    for (; end - i >= OB_WIDTH; i += OB_WIDTH) {
      const V x = fabs(OB_LOADV(i));
      a = OB_STEP(a, x);
    }
    for (; i < end; ++i) {
      const S x = fabs(OB_LOAD(i));
      sum = OB_STEP(sum, x);
    }
  }
  S each[OB_WIDTH];
  OB_VSTORE(a, 0, each);
#pragma unroll
  for (uint k = 0; k < OB_WIDTH; ++k) sum = OB_BOTH(sum, each[k]);
  SUM_OF_GROUP
  partial[get_group_id(0)] = sum;
}

__kernel void norms(OB_POINTER(S, partial), OB_POINTER(X, out), ob_calls calls) {
  OB_BIND(S, partial)
  OB_BIND(X, out)
  const uint call = get_group_id(0), lane = get_local_id(0), lanes = OB_LOCAL;
  S sum = 0;
  for (uint k = (call == 0 ? 0 : calls.end[call - 1]) + lane; k < calls.end[call]; k += lanes) {
    sum = OB_BOTH(sum, partial[k]);
  }
  SUM_OF_GROUP
  const S value = OB_NORM;
  OB_STORE(value);
}
