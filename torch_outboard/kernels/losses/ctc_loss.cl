// Connectionist temporal classification: losses, and functions shared with gradients. Labels of a
// sample alternate with blanks: indices 0, 2, 4 ... of a path are blanks, index 2 s + 1 is label s.
// Probabilities are logarithms (time, sample, class).

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
#define CLASS_AT(b, place) \
  ((place) % 2 == 0 ? (long)blank : (long)targets_load(START(b) + (place) / 2))

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
    const ob_index frames = TIMES(b), labels = LABELS(b), places = 2 * labels + 1,
                   width = 2 * plan[0] + 1;
    for (ob_index t = 0; t < times; ++t) {
      const ob_index row = (b * times + t) * width, before = row - width;
      for (ob_index s = OB_LANE; s < width; s += OB_LOCAL) {
        V alpha = -INFINITY;
        if (t < frames && s < places && (t > 0 || s < 2)) {
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
        const ob_index end = (b * times + frames - 1) * width + places - 1;
        loss =
            labels == 0 ? -log_alpha[end] : -ctc_add(log_alpha[end], log_alpha[end - 1], -INFINITY);
      }
      losses_store(b, loss);
    }
  }
}

#endif
