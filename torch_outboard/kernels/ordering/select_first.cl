// The first k elements of lines in sorted order. Lines are cut into blocks: a work-item collects
// the first k of its block in a sorted list, and one per line merges the lists. Most elements come
// after a full list, so they are compared in groups. OB_MOST: capacity of a list. Needs order.cl
// before it.

#define OB_GROUP 16

typedef struct {
  int count;
  V keys[OB_MOST];
  int locations[OB_MOST];
} ob_first;

static inline void ob_insert(ob_first *first, const int k, const V key, const int location) {
  if (first->count == k && !ob_before(key, first->keys[k - 1])) return;
  int at = first->count < k ? first->count++ : k - 1;
  for (; at > 0 && ob_before(key, first->keys[at - 1]); --at) {
    first->keys[at] = first->keys[at - 1];
    first->locations[at] = first->locations[at - 1];
  }
  first->keys[at] = key;
  first->locations[at] = location;
}

__kernel void select_in_blocks(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(group) {
    const ob_index item = group * OB_LOCAL + OB_LANE;
    if (item >= lines * blocks) continue;
    const ob_index line = item / blocks;
    const ob_index begin = (item - line * blocks) * block;
    const ob_index end = min(n, begin + block);
    const ob_index start = ob_line(self_layout, dim, line);
    ob_first first;
    first.count = 0;
    for (ob_index i = begin; i < end;) {
      if (end - i >= OB_GROUP && first.count == k) {
        const V last = first.keys[k - 1];
        int some = 0;
        if (self_stride == 1) {
          for (int u = 0; u < OB_GROUP; ++u) some |= ob_before(self_load(start + i + u), last);
        } else {
          for (int u = 0; u < OB_GROUP; ++u) {
            some |= ob_before(self_load(start + (i + u) * self_stride), last);
          }
        }
        if (!some) {
          i += OB_GROUP;
          continue;
        }
      }
      for (const ob_index stop = min(end, i + OB_GROUP); i < stop; ++i) {
        ob_insert(&first, (int)k, self_load(start + i * self_stride), (int)i);
      }
    }
    for (int i = 0; i < first.count; ++i) {
      keys_store(item * k + i, first.keys[i]);
      locations[item * k + i] = first.locations[i];
    }
  }
}

__kernel void merge_blocks(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(line)
  ob_first first;
  first.count = 0;
  for (ob_index b = 0; b < blocks; ++b) {
    const ob_index list = (line * blocks + b) * k;
    const ob_index count = min(k, n - b * block);
    for (ob_index i = 0; i < count; ++i) {
      ob_insert(&first, (int)k, keys_load(list + i), locations[list + i]);
    }
  }
  const ob_index to = ob_line(values_layout, dim, line);
  const ob_index to_index = ob_line(indices_layout, dim, line);
  for (int i = 0; i < first.count; ++i) {
    values_store(to + i * values_stride, first.keys[i]);
    indices_store(to_index + i * indices_stride, (long)first.locations[i]);
  }
}
