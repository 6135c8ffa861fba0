{{!
Norms of the tensors of a list. The marks are said in csrc/device_kernels/reduction/list_norms.cpp.
Work-groups of `partial_norms` take a part of one tensor each; those of `norms` put the parts of one
tensor together. Ends are counted in groups of the first kernel.
}}
#define STEP(a, x) ({{step}})
#define BOTH(a, b) ({{both}})
typedef struct { uint end[{{calls}}]; uint size[{{calls}}]; } ob_calls;
__kernel void partial_norms({{#each_call}}OB_POINTER({{storage}}, in_{{call}}), {{/each_call}}OB_POINTER({{value}}, partial), ob_calls calls) {
  OB_BIND({{value}}, partial)
  __global {{storage}} *in;
  uint group = get_group_id(0), call = 0, total;
#pragma unroll
  for (uint c = 0; c + 1 < {{calls}}; ++c) call += group >= calls.end[c];
  switch (call) {
{{#each_call}}
  {{label}}: {
    OB_BIND({{storage}}, in_{{call}})
    in = in_{{call}};
    total = calls.size[{{call}}];
    group -= {{begin}};
    break;
  }
{{/each_call}}
  }
  const uint lane = get_local_id(0), lanes = {{local}};
  {{vector}} a = ({{vector}})(0);
  {{value}} sum = 0;
  for (uint part = 0; part < {{parts}}; ++part) {
    uint i = ((group * {{parts}} + part) * lanes + lane) * {{chunk}};
    if (i >= total) break;
    const uint end = total - i < {{chunk}} ? total : i + {{chunk}};
    for (; end - i >= {{width}}; i += {{width}}) {
      const {{vector}} x = fabs({{load}});
      a = STEP(a, x);
    }
    for (; i < end; ++i) {
      const {{value}} x = fabs({{load_one}});
      sum = STEP(sum, x);
    }
  }
  {{value}} each[{{width}}];
  vstore{{width}}(a, 0, each);
#pragma unroll
  for (uint k = 0; k < {{width}}; ++k) sum = BOTH(sum, each[k]);
  __local {{value}} sums[{{local}}];
  sums[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane != 0) return;
  for (uint k = 1; k < lanes; ++k) sum = BOTH(sum, sums[k]);
  partial[get_group_id(0)] = sum;
}
__kernel void norms(OB_POINTER({{value}}, partial), OB_POINTER({{storage}}, out), ob_calls calls) {
  OB_BIND({{value}}, partial)
  OB_BIND({{storage}}, out)
  const uint call = get_group_id(0), lane = get_local_id(0), lanes = {{local}};
  {{value}} sum = 0;
  for (uint k = (call == 0 ? 0 : calls.end[call - 1]) + lane; k < calls.end[call]; k += lanes) {
    sum = BOTH(sum, partial[k]);
  }
  __local {{value}} sums[{{local}}];
  sums[lane] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (lane != 0) return;
  for (uint k = 1; k < lanes; ++k) sum = BOTH(sum, sums[k]);
  const {{value}} value = {{result}};
  {{store}}
}
