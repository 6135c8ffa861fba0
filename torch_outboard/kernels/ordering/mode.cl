// The most frequent value of each sorted line, the smallest of several, and its last index before
// sorting. Needs sort.cl before it.

__kernel void mode(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(line)
  const ob_index start = line * n;
  ob_index longest = 0;
  ob_index count = 0;
  V key = passes % 2 == 0 ? one_load(start) : two_load(start);
  V best = key;
  long place = 0;
  for (ob_index i = start; i < start + n; ++i) {
    const int is_last = i + 1 == start + n;
    const V next = is_last ? key : (passes % 2 == 0 ? one_load(i + 1) : two_load(i + 1));
    ++count;
    if (!is_last && key == next) continue;
    if (count > longest) {
      longest = count;
      best = key;
      place = passes % 2 == 0 ? one_places[i] : two_places[i];
    }
    count = 0;
    key = next;
  }
  values_store(line, best);
  indices_store(line, place);
}
