// Writes sorted keys and their indices to the results. Needs sort.cl before it.

__kernel void write_sorted(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index line = i / n;
  const ob_index at = i - line * n;
  const V key = passes % 2 == 0 ? one_load(i) : two_load(i);
  const int place = passes % 2 == 0 ? one_places[i] : two_places[i];
  values_store(ob_line(values_layout, dim, line) + at * values_stride, key);
  indices_store(ob_line(indices_layout, dim, line) + at * indices_stride, (long)place);
}
