// Distances in the p-norm between rows of `columns` elements. KIND: 0, 1 and 2 for these p, 3 for p
// = infinity, 4 for any other p.

static inline V distance(const V total, const V difference, const R p) {
  const V d = fabs(difference);
#if KIND == 0
  return total + (d != 0 ? (V)1 : (V)0);
#elif KIND == 1
  return total + d;
#elif KIND == 2
  return total + d * d;
#elif KIND == 3
  return d > total || d != d ? d : total;
#else
  return total + pow(d, (V)p);
#endif
}

static inline V root(const V total, const R p) {
#if KIND == 2
  return sqrt(total);
#elif KIND == 4
  return pow(total, (V)(1 / p));
#else
  return total;
#endif
}

// The derivative of a distance with respect to one difference, times `grad`.
static inline V slope(const V difference, const V grad, const V norm, const R p) {
  const V d = fabs(difference);
  const V sign = difference > 0 ? (V)1 : (difference < 0 ? (V)-1 : (V)0);
#if KIND == 0
  return 0;
#elif KIND == 1
  return grad * sign;
#elif KIND == 2
  return norm == 0 ? (V)0 : grad * difference / norm;
#elif KIND == 3
  return d == norm ? grad * sign : (V)0;
#else
  return norm == 0 || d == 0 ? (V)0 : grad * sign * pow(d / norm, (V)(p - 1));
#endif
}
