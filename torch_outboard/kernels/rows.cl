// Loops of a work-group over a row of n elements, by vectors and what is left over by values:
// BODY(type, load, store) is put once with (T, load_vector, store_vector) and once with
// (V, load, store), where `i` is the place. Sums have a part for each: ROW_VALUE(sum, 0) declares
// them, a body adds to sum_##type, and ROW_SUM(sum) is the total in all work items.

#define ROW_VALUE(name, initial) \
  T name##_T = C(initial);       \
  V name##_V = (initial);
#define ROW_SUM(name) OB_GROUP_SUM(OB_SUM(name##_T) + name##_V)

#define FOR_ROW(BODY)                                                                              \
  for (ob_index i = OB_LANE * W; i + W <= n; i += OB_LOCAL * W) BODY(T, load_vector, store_vector) \
  for (ob_index i = n / W * W + OB_LANE; i < n; i += OB_LOCAL) BODY(V, load, store)
