// The loss scale after a step: smaller if gradients were not finite, larger after some consecutive
// steps with finite ones.
__kernel void update_loss_scale(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(only)
  const V scale = self_load(0);
  int steps = 0;
  if (found_inf_load(0) != 0) {
    out_store(0, scale * backoff);
  } else {
    steps = (int)growth_tracker_load(0) + 1;
    const V grown = scale * growth;
    const int due = steps == interval;
    out_store(0, due && isfinite(grown) ? grown : scale);
    if (due) steps = 0;
  }
  growth_tracker[0] = steps;
}
