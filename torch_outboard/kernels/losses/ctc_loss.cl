// Connectionist temporal classification: losses and gradients. Labels of a sample alternate with
// blanks: indices 0, 2, 4 ... of a path are blanks, index 2 s + 1 is label s. Probabilities are
// logarithms (time, sample, class).

// `plan`: the largest number of labels, then per sample the start of its labels, its times and its
// labels.
#define START(b) plan[3 * (b) + 1]
#define TIMES(b) ((ob_index)plan[3 * (b) + 2])
#define LABELS(b) ((ob_index)plan[3 * (b) + 3])

__kernel void ctc_plan(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(only)
  long start = 0, longest = 0;
  for (ob_index b = 0; b < batch; ++b) {
    if (!concatenated) start = (long)b * target_columns;
    long frames = input_lengths_load(b), labels = target_lengths_load(b);
    const bool fits = frames >= 0 && frames <= times && labels >= 0 && labels <= most_labels &&
                      (!concatenated || start + labels <= target_columns);
    if (!fits) {
      OB_REPORT
      frames = 0;
      labels = 0;
    }
    START(b) = start;
    plan[3 * b + 2] = frames;
    plan[3 * b + 3] = labels;
    start += labels;
    longest = max(longest, labels);
  }
  plan[0] = longest;
}

// The class at an index of a path.
#define CLASS_AT(b, location) \
  ((location) % 2 == 0 ? (long)blank : (long)targets_load(START(b) + (location) / 2))

// A class out of range gives NaN.
#define LOG_PROBABILITY(t, b, target)           \
  ((target) < 0 || (target) >= classes ? (V)NAN \
                                       : log_probs_load(((t) * batch + (b)) * classes + (target)))

static inline V ctc_add(const V a, const V b, const V c) {
  V most = fmax(fmax(a, b), c);
  if (most == -INFINITY) most = 0;
  return log(exp(a - most) + exp(b - most) + exp(c - most)) + most;
}

#if !BACKWARD

__kernel void ctc_losses(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(b) {
    const ob_index frames = TIMES(b), labels = LABELS(b), length = 2 * labels + 1,
                   width = 2 * plan[0] + 1;
    for (ob_index t = 0; t < times; ++t) {
      const ob_index row = (b * times + t) * width, before = row - width;
      for (ob_index s = OB_LANE; s < width; s += OB_LOCAL) {
        V alpha = -INFINITY;
        if (t < frames && s < length && (t > 0 || s < 2)) {
          const long target = CLASS_AT(b, s);
          if (t > 0) {
            const bool jumps = s > 1 && CLASS_AT(b, s - 2) != target;
            alpha = ctc_add(log_alpha[before + s], s > 0 ? log_alpha[before + s - 1] : -INFINITY,
                            jumps ? log_alpha[before + s - 2] : -INFINITY);
          } else {
            alpha = 0;
          }
          alpha += LOG_PROBABILITY(t, b, target);
        }
        log_alpha[row + s] = alpha;
      }
      OB_BARRIER
    }
    if (OB_LANE == 0) {
      V loss = labels == 0 ? 0 : INFINITY;
      if (frames > 0) {
        const ob_index end = (b * times + frames - 1) * width + length - 1;
        loss =
            labels == 0 ? -log_alpha[end] : -ctc_add(log_alpha[end], log_alpha[end - 1], -INFINITY);
      }
      losses_store(b, loss);
    }
  }
}

#else

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
    const ob_index frames = TIMES(b), length = 2 * LABELS(b) + 1;
    for (ob_index t = frames - 1; t >= 0; --t) {
      const ob_index row = (b * times + t) * width, after = row + width;
      for (ob_index s = OB_LANE; s < length; s += OB_LOCAL) {
        V beta = s >= length - 2 ? 0 : -INFINITY;
        const long target = CLASS_AT(b, s);
        if (t < frames - 1) {
          const bool jumps = s < length - 2 && CLASS_AT(b, s + 2) != target;
          beta = ctc_add(log_beta[after + s], s < length - 1 ? log_beta[after + s + 1] : -INFINITY,
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

#endif
