// The negative log likelihood of class `target` of (batch, classes, inner), times the class weight.
// NaN for a target that is no class.

#if HAS_weight
#define SHARE_OF(class) weight_load(class)
#else
#define SHARE_OF(class) ((V)1)
#endif
// The loss of element i, and its weight in a mean.
#define LOSS_AND_SHARE(i)                                                                         \
  V loss = 0, share = 0;                                                                          \
  {                                                                                               \
    const long t = target_load(i);                                                                \
    const ob_index outer = (i) / inner;                                                           \
    if (t != ignore) {                                                                            \
      const bool known = t >= 0 && t < classes;                                                   \
      const ob_index at = known ? (ob_index)t : 0;                                                \
      if (!known) { OB_REPORT }                                                                   \
      share = SHARE_OF(at);                                                                       \
      loss = known ? -self_load((outer * classes + at) * inner + (i) - outer * inner) * share     \
                   : (V)NAN;                                                                      \
    }                                                                                             \
  }

__kernel void nll_loss_each(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  LOSS_AND_SHARE(i)
#if REDUCTION
  losses_store(i, loss);
  shares_store(i, share);
#else
  out_store(i, loss);
#endif
}

__kernel void nll_loss_total(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(g) {
    V loss = 0, share = 0;
#if REDUCTION
    for (ob_index i = OB_LANE; i < sums; i += OB_LOCAL) {
      loss += losses_load(i);
      share += shares_load(i);
    }
    loss = OB_GROUP_SUM(loss);
    share = OB_GROUP_SUM(share);
#endif
    if (OB_LANE == 0) {
#if REDUCTION == 1
      out_store(0, loss / share);
#elif REDUCTION == 2
      out_store(0, loss);
#endif
      total_store(0, share);
    }
  }
}
