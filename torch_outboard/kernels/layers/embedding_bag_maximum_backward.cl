// The gradient of maxima of bags: one work-item per column.

__kernel void embedding_bag_maximum_backward(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  for (ob_index bag = 0; bag < bags; ++bag) {
    const ob_index place = ob_checked_index(maximum_indices_load(bag * n + i), row_count);
    if (bag_size_load(bag) == 0 || place < 0) continue;
    out_store(place * n + i, out_load(place * n + i) + grad_load(bag * n + i));
  }
}
