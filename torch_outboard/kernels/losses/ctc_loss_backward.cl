// The gradient of ctc_loss.cl.

// For each label the next equal one of the sample, or -1, and a flag for the first one. Blank
// labels count as blanks.
__kernel void ctc_equal_labels(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index b = i / most_labels, s = i - b * most_labels, labels = LABELS(b);
  if (s >= labels) return;
  const long target = CLASS_AT(b, 2 * s + 1);
  int first = target != blank;
  for (ob_index k = 0; k < s && first; ++k) first = CLASS_AT(b, 2 * k + 1) != target;
  ob_index next = s + 1;
  while (next < labels && CLASS_AT(b, 2 * next + 1) != target) ++next;
  following[i] = next < labels ? (int)next : -1;
  leads[i] = first;
}

__kernel void ctc_betas(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(b) {
    const ob_index frames = TIMES(b), places = 2 * LABELS(b) + 1;
    for (ob_index t = frames - 1; t >= 0; --t) {
      const ob_index row = (b * times + t) * width, after = row + width;
      for (ob_index s = OB_LANE; s < places; s += OB_LOCAL) {
        V beta = s >= places - 2 ? 0 : -INFINITY;
        const long target = CLASS_AT(b, s);
        if (t < frames - 1) {
          const bool jumps = s < places - 2 && CLASS_AT(b, s + 2) != target;
          beta = ctc_add(log_beta[after + s], s < places - 1 ? log_beta[after + s + 1] : -INFINITY,
                         jumps ? log_beta[after + s + 2] : -INFINITY);
        }
        log_beta[row + s] = beta + LOG_PROBABILITY(t, b, target);
      }
      OB_BARRIER
    }
  }
}

// Adds the paths through index s of a row: `sum` of exponentials relative to `most`.
#define ADD_PATHS(s)                                           \
  {                                                            \
    const V both = log_alpha[row + (s)] + log_beta[row + (s)]; \
    if (both > most) {                                         \
      sum = sum * exp(most - both) + 1;                        \
      most = both;                                             \
    } else if (both != -INFINITY) {                            \
      sum += exp(both - most);                                 \
    }                                                          \
  }
#define STORE_GRADIENT(target)                                                         \
  {                                                                                    \
    const V probability = log_probs_load(to + (target));                               \
    out_store(to + (target),                                                           \
              (exp(probability) - exp(log(sum) + most + loss - probability)) * slope); \
  }

__kernel void ctc_gradient(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(group) {
    const ob_index t = group / batch, b = group - t * batch, to = group * classes;
    const ob_index row = (b * times + t) * width, labels = LABELS(b);
    const V loss = neg_log_likelihood_load(b), slope = grad_load(b);
    const bool counts = t < TIMES(b) && !(ignores_infinity && loss == INFINITY);
    for (ob_index c = OB_LANE; c < classes; c += OB_LOCAL) {
      V gradient = 0;
      if (counts) {
        // No path: the exponential of this is zero, or it is NaN.
        const V probability = log_probs_load(to + c), none = -INFINITY + loss - probability;
        gradient = (exp(probability) - (none != none ? none : (V)0)) * slope;
      }
      out_store(to + c, gradient);
    }
    OB_BARRIER
    if (!counts) continue;
    for (ob_index s = OB_LANE; s < labels; s += OB_LOCAL) {
      const long target = CLASS_AT(b, 2 * s + 1);
      if (!leads[b * most_labels + s] || target < 0 || target >= classes) continue;
      V most = -INFINITY, sum = 0;
      for (int k = (int)s; k >= 0; k = following[b * most_labels + k]) ADD_PATHS(2 * k + 1)
      STORE_GRADIENT(target)
    }
    if (OB_LANE == 0) {
      V most = -INFINITY, sum = 0;
      for (ob_index s = 0; s <= 2 * labels; ++s) {
        if (CLASS_AT(b, s) == blank) ADD_PATHS(s)
      }
      STORE_GRADIENT(blank)
    }
  }
}
