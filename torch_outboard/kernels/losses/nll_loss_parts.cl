// Partial sums of the losses of nll_loss.cl, for inputs too large for one work-group.

__kernel void nll_loss_parts(OB_PARAMETERS) {
  OB_BEGIN
  OB_SCRATCH(S)
  OB_FOR_GROUPS(part) {
    V losses_of_item = 0, shares_of_item = 0;
    for (ob_index i = part * OB_LOCAL + OB_LANE; i < count; i += sums * OB_LOCAL) {
      LOSS_AND_SHARE(i)
      losses_of_item += loss;
      shares_of_item += share;
    }
    const V losses_of_part = OB_GROUP_SUM(losses_of_item);
    const V shares_of_part = OB_GROUP_SUM(shares_of_item);
    if (OB_LANE == 0) {
      losses_store(part, losses_of_part);
      shares_store(part, shares_of_part);
    }
  }
}
