// True if a precedes b in sorted order; NaN is the largest value.

static inline int ob_before(const V a, const V b) {
#if OB_FLOATING && DESCENDING
  return a > b || (a != a && b == b);
#elif OB_FLOATING
  return a < b || (b != b && a == a);
#elif DESCENDING
  return a > b;
#else
  return a < b;
#endif
}
