// States of running sums (SCAN 0), products (1), logarithms of sums of exponentials (2), maxima (3)
// and minima (4). join(a, b): state of the elements of a followed by those of b.

#if SCAN == 0 && OB_FLOATING && OB_LOCAL == 1 && defined(cl_khr_fp64)
// CPU: sums in float64, as in the CPU kernel.
typedef struct {
  double value;
} State;
static inline State join(const State a, const State b) { return (State){a.value + b.value}; }
#define STATE_OF(x, i) ((State){(double)(x)})
#define RESULT(s) ((V)(s).value)
#define PART_VALUE(s) RESULT(s)
// 0 for infinities.
static inline V part_rest(const State s) {
  const V rest = (V)(s.value - (double)RESULT(s));
  return rest - rest == 0 ? rest : 0;
}
#define PART_REST(s) part_rest(s)
#define STATE_OF_PART(part_value, part_rest) ((State){(double)(part_value) + (double)(part_rest)})
#elif SCAN == 0 && (OB_FLOATING || OB_COMPLEX)
// The sum and its rounding error: CPU adds float32 in float64.
typedef struct {
  V value, rest;
} State;
static inline State join(const State a, const State b) {
  State s;
  s.value = a.value + b.value;
  const V part = s.value - a.value;
  s.rest = a.rest + b.rest + ((a.value - (s.value - part)) + (b.value - part));
  // 0 for infinities.
#if !OB_COMPLEX
  s.rest = s.rest - s.rest == 0 ? s.rest : 0;
#else
  s.rest.x = s.rest.x - s.rest.x == 0 ? s.rest.x : 0;
  s.rest.y = s.rest.y - s.rest.y == 0 ? s.rest.y : 0;
#endif
  return s;
}
#define STATE_OF(x, i) ((State){(x), (V)(0)})
#define RESULT(s) ((s).value + (s).rest)
#elif SCAN == 3 || SCAN == 4
// Of equal elements the later one counts; NaN is the largest.
typedef struct {
  V value;
  ob_index rest;
} State;
static inline State join(const State a, const State b) {
#if SCAN == 3
  const bool later = b.value != b.value || (a.value == a.value && b.value >= a.value);
#else
  const bool later = b.value != b.value || (a.value == a.value && b.value <= a.value);
#endif
  return later ? b : a;
}
#define STATE_OF(x, i) ((State){(x), (i)})
#define RESULT(s) (s).value
#elif SCAN == 2
// The largest element, and the sum of exponentials of the differences to it.
typedef struct {
  V value, rest;
} State;
static inline State join(const State a, const State b) {
  const V largest = a.value > b.value || a.value != a.value ? a.value : b.value;
  State s;
  s.value = largest;
  s.rest = (a.value == largest ? a.rest : a.rest * exp(a.value - largest)) +
           (b.value == largest ? b.rest : b.rest * exp(b.value - largest));
  return s;
}
#define STATE_OF(x, i) ((State){(x), (V)(1)})
#define RESULT(s) (s.value + log(s.rest))
#else
typedef struct {
  V value;
} State;
static inline State join(const State a, const State b) {
#if SCAN == 0
  return (State){a.value + b.value};
#else
  return (State){ob_mul(a.value, b.value)};
#endif
}
#define STATE_OF(x, i) ((State){(x)})
#define RESULT(s) (s).value
#endif

#define TWO_VALUES (SCAN == 2 || (SCAN == 0 && (OB_FLOATING || OB_COMPLEX)))
#ifndef STATE_OF_PART
#define PART_VALUE(s) s.value
#define PART_REST(s) s.rest
#define STATE_OF_PART(part_value, part_rest) ((State){(part_value), (part_rest)})
#endif

// Elements in the dtype of the result.
#if OB_COMPLEX
#define ELEMENT(at) self_load(at)
#else
#define ELEMENT(at) (V)self_load(at)
#endif

// Offsets of the results of a row.
#if SCAN == 3 || SCAN == 4
typedef struct {
  ob_index values, indices;
} Line;
#define LINE_STEPS                                          \
  const ob_index values_step = values_layout.stride[d];     \
  const ob_index indices_step = indices_layout.stride[d];
#define LINE_OF(row, start) \
  ((Line){ob_line(values_layout, d, row), ob_line(indices_layout, d, row)})
#define STORE(line, i, s)                                  \
  {                                                        \
    values_store((line.values + (i) * values_step), (s).value);  \
    indices_store((line.indices + (i) * indices_step), (s).rest); \
  }
#else
typedef struct {
  ob_index out;
} Line;
#define LINE_STEPS
#define LINE_OF(row, start) ((Line){start})
#define STORE(line, i, s) out_store((line.out + (i) * inner), RESULT(s));
#endif
