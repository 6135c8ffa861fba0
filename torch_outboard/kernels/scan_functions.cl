// What running sums (SCAN 0), products (1), logarithms of sums of exponentials (2), maxima (3) and
// minima (4) keep of the elements that they have seen. join(a, b) is of those of a followed by b.

#if SCAN == 0 && (OB_FLOATING || OB_COMPLEX)
// The sum and what was lost to rounding: CPU adds float32 in float64.
typedef struct {
  V value, rest;
} State;
static inline State join(const State a, const State b) {
  State s;
  s.value = a.value + b.value;
  const V part = s.value - a.value;
  s.rest = a.rest + b.rest + ((a.value - (s.value - part)) + (b.value - part));
  // Of infinities nothing is lost.
#if !OB_COMPLEX
  s.rest = s.rest - s.rest == 0 ? s.rest : 0;
#else
  s.rest.x = s.rest.x - s.rest.x == 0 ? s.rest.x : 0;
  s.rest.y = s.rest.y - s.rest.y == 0 ? s.rest.y : 0;
#endif
  return s;
}
#define STATE_OF(x, i) ((State){(x), (V)(0)})
#define RESULT(s) (s.value + s.rest)
#elif SCAN == 3 || SCAN == 4
// Of equal elements the later one counts, and NaN most.
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
#define RESULT(s) s.value
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
#define RESULT(s) s.value
#endif

#define TWO_VALUES (SCAN == 2 || (SCAN == 0 && (OB_FLOATING || OB_COMPLEX)))
#if SCAN == 3 || SCAN == 4
#define STORE(at, s)                                      \
  values_store(ob_place(values_layout, at), s.value);     \
  indices_store(ob_place(indices_layout, at), s.rest);
#else
#define STORE(at, s) out_store(at, RESULT(s));
#endif
// Elements as the dtype of the result holds them.
#if OB_COMPLEX
#define ELEMENT(at) self_load(at)
#else
#define ELEMENT(at) (V)self_load(at)
#endif
