// The sum of `losses`, divided by `divisor`.

__kernel void loss_total(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(g) {
    V total = 0;
    for (ob_index i = OB_LANE; i < loss_count; i += OB_LOCAL) total += losses_load(i);
    total = OB_GROUP_SUM(total);
    if (OB_LANE == 0) out_store(0, total / (V)divisor);
  }
}
