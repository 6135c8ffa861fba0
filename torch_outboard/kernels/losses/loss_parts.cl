// Sums of losses: a work-group sums `part` of the `count` elements.

__kernel void loss_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(g) {
    const ob_index first = g * part;
    const ob_index n = min(part, count - first);
    ROW_VALUE(total, 0)
#if HAS_weight
#define WEIGHT(load) *weight_##load(first + i)
#else
#define WEIGHT(load)
#endif
#define ADD(type, load, store)                                             \
  {                                                                        \
    const type x = self_##load(first + i), t = target_##load(first + i);   \
    total_##type += (LOSS_OF(type, x, t)) WEIGHT(load);                    \
  }
    FOR_ROW(ADD)
    const V total = ROW_SUM(total);
    if (OB_LANE == 0) losses_store(g, total);
  }
}
