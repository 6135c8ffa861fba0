{{!
The program of a pointwise operator: a kernel for contiguous operands and one for any strides, or
one that takes the operands of several calls (`many`): a work-group does a part of one of them.

The marks are those of Mustache (csrc/device_kernels/text_template.h). What they stand for is said in
csrc/device_kernels/pointwise/pointwise_source.cpp, and docs/kernels.md shows a program. `adjacent`
is for GPUs: work items that run together touch memory that lies together, and arrays are indexed by
constants, or they would lie in memory. A backslash
at the end of a line joins the next one without its indentation.
}}
#define OB_INDEX {{index}}
{{functions}}
{{#outputs}}
static inline {{result}} ob_result{{i}}({{parameters}}) { return {{expression}}; }
{{/outputs}}
{{#once}}
static inline S ob_once{{i}}({{once_parameters}}) { return {{expression}}; }
{{/once}}
{{#conditions}}
static inline M ob_condition({{parameters}}) { return {{expression}}; }
{{/conditions}}
{{#outputs}}
static inline void ob_write{{i}}(__global {{storage}} *p, OB_INDEX at, OB_INDEX stride, uint count, {{result}} result) {
  const {{value}} value = {{converted}};
{{^vectors}}
  {{store}}
{{/vectors}}
{{#vectors}}
  if (stride == 1 && count == {{width}}) {
{{#adjacent}}
    if ((size_t)(p + at) % {{vector_bytes}} == 0) {
      {{aligned_store}}
      return;
    }
{{/adjacent}}
    {{store}}
  } else {
    {{element}} each[{{width}}];
    vstore{{width}}(value, 0, each);
{{#adjacent}}
#pragma unroll
    for (uint k = 0; k < {{width}}; ++k) { if (k < count) { {{store_each}} } }
{{/adjacent}}
{{^adjacent}}
    for (uint k = 0; k < count; ++k) {{store_each}}
{{/adjacent}}
  }
{{/vectors}}
}
{{/outputs}}
{{#reads}}
static inline {{operand}} ob_read{{i}}(__global {{storage}} *p, OB_INDEX at, OB_INDEX stride, uint count) {
{{^vectors}}
  return {{converted}};
{{/vectors}}
{{#vectors}}
  {{value}} value;
  if (stride == 1 && count == {{width}}) {
{{#adjacent}}
    if ((size_t)(p + at) % {{vector_bytes}} == 0) value = {{aligned_load}}; else
{{/adjacent}}
    value = {{load}};
  } else if (stride == 0) {
    value = ({{value}})({{load_one}});
  } else {
    {{element}} each[{{width}}];
    vstore{{width}}(({{value}})({{padding}}), 0, each);
{{#adjacent}}
#pragma unroll
    for (uint k = 0; k < {{width}}; ++k) { if (k < count) each[k] = {{load_each}}; }
{{/adjacent}}
{{^adjacent}}
    for (uint k = 0; k < count; ++k) each[k] = {{load_each}};
{{/adjacent}}
    value = vload{{width}}(0, each);
  }
  return {{converted}};
{{/vectors}}
}
{{#crosses}}
static inline void ob_take{{i}}(__global {{storage}} *p, OB_INDEX at, __local {{element}} *to) { *to = {{load_one}}; }
static inline {{operand}} ob_taken{{i}}(const __local {{element}} *tile) {
  {{element}} each[{{width}}];
#pragma unroll
  for (uint k = 0; k < {{width}}; ++k) each[k] = tile[k * ({{tile}} + 1)];
  const {{value}} value = vload{{width}}(0, each);
  return {{converted}};
}
{{/crosses}}
{{/reads}}
{{#kernels}}
{{#layout}}
typedef struct { OB_INDEX size[{{dimensions}}]; OB_INDEX stride[{{dimensions}}][{{pointer_count}}]; } ob_layout;
{{/layout}}
{{#many}}
typedef struct { uint end[{{calls}}]; uint size[{{calls}}]; } ob_calls;
{{#values}}
typedef struct { {{element}} of[{{calls}}]; } ob_{{name}}_values;
{{/values}}
__kernel void many(\
    {{#each_call}}{{#listed}}OB_POINTER({{storage}}, {{name}}_{{call}}), {{/listed}}{{/each_call}}\
    {{#common}}OB_POINTER({{storage}}, {{name}}), {{/common}}\
    {{#values}}ob_{{name}}_values {{name}}_values, {{/values}}\
    {{#numbers}}{{element}} {{name}}, {{/numbers}}ob_calls calls{{#checks}}, OB_POINTER({{flag}}, ob_flag){{/checks}}) {
{{#common}}
  OB_BIND({{storage}}, {{name}})
{{/common}}
{{#listed}}
  __global {{storage}} *{{name}};
{{/listed}}
{{#values}}
  {{element}} {{name}};
{{/values}}
  // Ends are counted in groups; a call has `group` of its groups before this one.
  uint group = get_group_id(0), call = 0, total;
#pragma unroll
  for (uint c = 0; c + 1 < {{calls}}; ++c) call += group >= calls.end[c];
  switch (call) {
{{#each_call}}
  {{label}}: {
{{#listed}}
    OB_BIND({{storage}}, {{name}}_{{call}})
    {{name}} = {{name}}_{{call}};
{{/listed}}
{{#values}}
    {{name}} = {{name}}_values.of[{{call}}];
{{/values}}
    total = calls.size[{{call}}];
    group -= {{begin}};
    break;
  }
{{/each_call}}
  }
{{#in_place}}
  __global {{storage}} *out{{i}} = in{{input}};
{{/in_place}}
{{/many}}
{{^many}}
__kernel void {{name}}(\
    {{#outputs}}OB_POINTER({{storage}}, out{{i}}), {{/outputs}}\
    {{#inputs}}{{#pointer}}OB_POINTER({{storage}}, in{{i}}), {{/pointer}}\
    {{^pointer}}{{element}} in{{i}}, {{/pointer}}{{/inputs}}\
    {{#scalars}}{{compute}} scalar{{i}}, {{/scalars}}\
    {{#layout}}ob_layout layout, uint dimensions, {{/layout}}{{#crossed}}uint across, {{/crossed}}OB_INDEX total{{#checks}}, OB_POINTER({{flag}}, ob_flag){{/checks}}) {
{{#outputs}}
  OB_BIND({{storage}}, out{{i}})
{{/outputs}}
{{/many}}
{{#inputs}}
{{#pointer}}
{{^many}}
  OB_BIND({{storage}}, in{{i}})
{{/many}}
{{/pointer}}
{{^pointer}}
  const {{operand}} x{{i}} = ({{operand}})({{passed}});
{{/pointer}}
{{/inputs}}
{{#checks}}
  OB_BIND({{flag}}, ob_flag)
  M ob_found = 0;
{{/checks}}
{{#uniforms}}
  const S u{{i}} = {{uniform}};
{{#pointer}}
  const T x{{i}} = (T)(u{{i}});
{{/pointer}}
{{/uniforms}}
{{#scalars}}
  const T s{{i}} = (T)(scalar{{i}});
{{/scalars}}
{{#any_once}}
  __local S once[{{once_count}}];
  if (get_local_id(0) == 0) {
{{#once}}
    once[{{i}}] = ob_once{{i}}({{once_arguments}});
{{/once}}
  }
  barrier(CLK_LOCAL_MEM_FENCE);
{{#once}}
  const T c{{i}} = (T)(once[{{i}}]);
{{/once}}
{{/any_once}}
{{#crossed}}
  // A group takes a tile of dimension 0, along which outputs lie, and of dimension `across`. It reads
  // what lies along the second one into local memory in that order.
{{#reads}}
  __local {{element}} tile{{i}}[{{tile}} * ({{tile}} + 1)];
  const bool crossed{{i}} = layout.stride[across][{{place}}] == 1 && layout.stride[0][{{place}}] > 1;
{{/reads}}
  const OB_INDEX tiles = (layout.size[0] + {{tile}} - 1) / {{tile}};
  const OB_INDEX tiles_across = (layout.size[across] + {{tile}} - 1) / {{tile}};
  OB_INDEX rest = get_group_id(0);
  const OB_INDEX first = rest % tiles * {{tile}};
  rest /= tiles;
  const OB_INDEX first_across = rest % tiles_across * {{tile}};
  rest /= tiles_across;
{{#pointers}}
  OB_INDEX o{{place}} = first * layout.stride[0][{{place}}] + first_across * layout.stride[across][{{place}}];
{{/pointers}}
  for (uint d = 1; d < dimensions; ++d) {
    if (d == across) continue;
    const OB_INDEX quotient = rest / layout.size[d];
    const OB_INDEX index = rest - quotient * layout.size[d];
    rest = quotient;
{{#pointers}}
    o{{place}} += index * layout.stride[d][{{place}}];
{{/pointers}}
  }
  const uint wide = min((OB_INDEX){{tile}}, layout.size[0] - first);
  const uint high = min((OB_INDEX){{tile}}, layout.size[across] - first_across);
  for (uint e = get_local_id(0); e < {{tile}} * {{tile}}; e += get_local_size(0)) {
    const uint x = e / {{tile}}, y = e % {{tile}};
    if (x >= wide || y >= high) continue;
{{#reads}}
    if (crossed{{i}}) ob_take{{i}}(in{{i}}, o{{place}} + x * layout.stride[0][{{place}}] + y, tile{{i}} + x * ({{tile}} + 1) + y);
{{/reads}}
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (uint e = get_local_id(0); e < {{tile}} * {{tile}} / {{width}}; e += get_local_size(0)) {
    const uint x = e % ({{tile}} / {{width}}) * {{width}}, y = e / ({{tile}} / {{width}});
    if (x >= wide || y >= high) continue;
    const uint n = min((uint){{width}}, wide - x);
    {{#reads}}const {{operand}} x{{i}} = crossed{{i}} ? ob_taken{{i}}(tile{{i}} + x * ({{tile}} + 1) + y) : ob_read{{i}}(in{{i}}, o{{place}} + x * layout.stride[0][{{place}}] + y * layout.stride[across][{{place}}], layout.stride[0][{{place}}], n); {{/reads}}\
    {{#outputs}}const {{result}} r{{i}} = ob_result{{i}}({{arguments}}); {{/outputs}}\
    {{#outputs}}ob_write{{i}}(out{{i}}, o{{place}} + x * layout.stride[0][{{place}}] + y * layout.stride[across][{{place}}], layout.stride[0][{{place}}], n, r{{i}}); {{/outputs}}
  }
}
{{/crossed}}
{{^crossed}}
{{#many}}
  for (uint part = 0; part < {{parts}}; ++part) {
  OB_INDEX i = ((group * {{parts}} + part) * (uint)get_local_size(0) + (uint)get_local_id(0)) * {{chunk}};
  if (i >= total) break;
{{/many}}
{{^many}}
  OB_INDEX i = (OB_INDEX)get_global_id(0) * {{chunk}};
  if (i >= total) return;
{{/many}}
  const OB_INDEX end = total - i < {{chunk}} ? total : i + {{chunk}};
{{^strided}}
  for (; end - i >= {{width}}; i += {{width}}) { \
    {{#reads}}const {{operand}} x{{i}} = ob_read{{i}}(in{{i}}, {{at}}, {{step}}, {{width}}); {{/reads}}\
    {{#checks}}ob_found |= {{condition}}; {{/checks}}{{#outputs}}const {{result}} r{{i}} = ob_result{{i}}({{arguments}}); {{/outputs}}\
    {{#outputs}}ob_write{{i}}(out{{i}}, i, 1, {{width}}, r{{i}}); {{/outputs}}}
{{#vectors}}
  if (i < end) { const uint n = end - i; \
    {{#reads}}const {{operand}} x{{i}} = ob_read{{i}}(in{{i}}, {{at}}, {{step}}, n); {{/reads}}\
    {{#checks}}ob_found |= {{condition}}; {{/checks}}{{#outputs}}const {{result}} r{{i}} = ob_result{{i}}({{arguments}}); {{/outputs}}\
    {{#outputs}}ob_write{{i}}(out{{i}}, i, 1, n, r{{i}}); {{/outputs}}}
{{/vectors}}
{{/strided}}
{{#strided}}
  while (i < end) {
    OB_INDEX rest = i / layout.size[0];
    const OB_INDEX first = i - rest * layout.size[0];
{{#pointers}}
    OB_INDEX o{{place}} = first * layout.stride[0][{{place}}];
{{/pointers}}
    for (uint d = 1; d < dimensions; ++d) {
      const OB_INDEX quotient = rest / layout.size[d];
      const OB_INDEX index = rest - quotient * layout.size[d];
      rest = quotient;
{{#pointers}}
      o{{place}} += index * layout.stride[d][{{place}}];
{{/pointers}}
    }
    const OB_INDEX run = min(end - i, layout.size[0] - first);
    for (OB_INDEX j = 0; j < run; j += {{width}}) {
      const uint n = min((OB_INDEX){{width}}, run - j);
      {{#reads}}const {{operand}} x{{i}} = ob_read{{i}}(in{{i}}, o{{place}} + j * layout.stride[0][{{place}}], layout.stride[0][{{place}}], n); {{/reads}}\
      {{#checks}}ob_found |= {{condition}}; {{/checks}}{{#outputs}}const {{result}} r{{i}} = ob_result{{i}}({{arguments}}); {{/outputs}}\
      {{#outputs}}ob_write{{i}}(out{{i}}, o{{place}} + j * layout.stride[0][{{place}}], layout.stride[0][{{place}}], n, r{{i}}); {{/outputs}}
    }
    i += run;
  }
{{/strided}}
{{#many}}
  }
{{/many}}
{{#checks}}
  if ({{#vectors}}any(ob_found){{/vectors}}{{^vectors}}ob_found{{/vectors}}) *ob_flag = 1;
{{/checks}}
}
{{/crossed}}
{{/kernels}}
