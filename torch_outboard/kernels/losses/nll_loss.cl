// The negative log likelihood of class `target` of (batch, classes, inner), times the class weight,
// and its gradient. NaN for a target that is no class.

#if HAS_grad_output

#if REDUCTION == 1
#define SHARE / total_weight_load(0)
#else
#define SHARE
#endif
#define SLOPE(class, location) \
  (-grad_output_load(REDUCTION ? 0 : location) SHARE IF_weight(* weight_load(class)))
#define IS_WRONG(t) ((t) != ignore && ((t) < 0 || (t) >= classes))

__kernel void nll_loss_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
#if OB_LOCAL == 1
  // CPU: one division per row, either all classes of a position or all positions of a class.
  if (inner == 1) {
    const long t = target_load(i);
    if (IS_WRONG(t)) { OB_REPORT }
    for (ob_index class = 0; class < classes; ++class) grad_store(i * classes + class, (V)(0));
    if (t != ignore && t >= 0 && t < classes) grad_store(i * classes + t, SLOPE(t, i));
    return;
  }
  const ob_index class = i % classes, first = i / classes * inner;
  for (ob_index k = 0; k < inner; ++k) {
    const long t = target_load(first + k);
    if (class == 0 && IS_WRONG(t)) { OB_REPORT }
    grad_store(i * inner + k, t == class && class != ignore ? SLOPE(class, first + k) : (V)0);
  }
#else
  const ob_index outer = i / (classes * inner);
  const ob_index class = i / inner - outer * classes;
  const ob_index location = outer * inner + i % inner;
  const long t = target_load(location);
  if (class == 0 && IS_WRONG(t)) { OB_REPORT }
  grad_store(i, t == class && class != ignore ? SLOPE(class, location) : (V)0);
#endif
}

#else

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
      share = (V)1 IF_weight(* weight_load(at));                                                  \
      loss = known ? -self_load((outer * classes + at) * inner + (i) - outer * inner) * share     \
                   : (V)NAN;                                                                      \
    }                                                                                             \
  }

// A work-group computes every `sums`-th part of OB_LOCAL losses.
__kernel void nll_loss_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(part) {
    V losses_of_item = 0, shares_of_item = 0;
    for (ob_index i = part * OB_LOCAL + OB_LANE; i < count; i += sums * OB_LOCAL) {
      LOSS_AND_SHARE(i)
#if REDUCTION
      losses_of_item += loss;
      shares_of_item += share;
#else
      out_store(i, loss);
#endif
    }
#if REDUCTION
    const V losses_of_part = OB_GROUP_SUM(losses_of_item);
    const V shares_of_part = OB_GROUP_SUM(shares_of_item);
    if (OB_LANE == 0) {
      losses_store(part, losses_of_part);
      shares_store(part, shares_of_part);
    }
#endif
  }
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

#endif
