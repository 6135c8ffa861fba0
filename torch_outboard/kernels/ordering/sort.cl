// True if a precedes b in sorted order; NaN is the largest value.

static inline int ob_before(const V a, const V b) {
#if OB_FLOATING && DESCENDING
  return a > b || (a != a && b == b);
#elif OB_FLOATING
  return a < b || (b != b && a == a);
#elif DESCENDING
  return a > b;
#else
  return a < b;
#endif
}

#ifdef OB_MOST

// The first k elements of lines in sorted order. Lines are cut into blocks: a work-item collects
// the first k of its block in a sorted list, and one per line merges the lists. Most elements come
// after a full list, so they are compared in groups. OB_MOST: capacity of a list.

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

#else

// Stable merge sort of lines. A work-item sorts OB_RUN elements, then runs are merged in pairs: for
// every OB_RUN elements of a merged run a work-item finds their sources (merge path).
//
// On a GPU a work-group sorts a run in local memory by the same method. DIRECT: a run contains
// whole lines, which are written to the results.

// The number of elements from the run [begin, middle) among the first `skipped` of its merge with
// [middle, end); KEY(i) is an element.
#define OB_SPLIT(type, split, KEY, begin, middle, end, skipped)                            \
  type split = max((type)0, (type)((skipped) - ((end) - (middle))));                       \
  for (type high = min((type)(skipped), (type)((middle) - (begin))); split < high;) {      \
    const type at = (split + high) / 2;                                                    \
    if (ob_before(KEY(((middle) + (skipped) - 1 - at)), KEY(((begin) + at)))) {            \
      high = at;                                                                           \
    } else {                                                                               \
      split = at + 1;                                                                      \
    }                                                                                      \
  }

// The pair of runs of a line whose merge has element `first` of the line, after `skipped` others.
#define OB_PAIR                                                                  \
  const ob_index base = line * n, width = (ob_index)OB_RUN << ob_step;           \
  const ob_index pair = first / width / 2 * width * 2, skipped = first - pair;   \
  const ob_index begin = base + pair, middle = base + min(pair + width, n);      \
  const ob_index end = base + (n - pair < width ? n : min(pair + width * 2, n));

#if OB_LOCAL == 1

#define OB_RUN 16

__kernel void sort_runs(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index line = item / runs;
  const ob_index first = (item - line * runs) * OB_RUN;
  const ob_index start = ob_line(self_layout, dim, line);
  const int count = (int)min((ob_index)OB_RUN, n - first);
  V keys[OB_RUN];
  int locations[OB_RUN];
  for (int i = 0; i < count; ++i) {
    const V key = self_load(start + (first + i) * self_stride);
    int at = i;
    for (; at > 0 && ob_before(key, keys[at - 1]); --at) {
      keys[at] = keys[at - 1];
      locations[at] = locations[at - 1];
    }
    keys[at] = key;
    locations[at] = (int)first + i;
  }
  for (int i = 0; i < count; ++i) {
    one_store(line * n + first + i, keys[i]);
    one_locations[line * n + first + i] = locations[i];
  }
}

#define OB_MERGE(from, to)                                                     \
  OB_SPLIT(ob_index, taken, from##_load, begin, middle, end, skipped)          \
  ob_index a = begin + taken;                                                  \
  ob_index b = middle + skipped - taken;                                       \
  for (ob_index i = base + first; i < last; ++i) {                             \
    const int second =                                                         \
        a >= middle || (b < end && ob_before(from##_load(b), from##_load(a))); \
    const ob_index source = second ? b++ : a++;                                \
    to##_store(i, from##_load(source));                                        \
    to##_locations[i] = from##_locations[source];                              \
  }

__kernel void merge_runs(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index line = item / runs;
  const ob_index first = (item - line * runs) * OB_RUN;
  OB_PAIR
  const ob_index last = base + min(first + OB_RUN, n);
  if (ob_step % 2 == 0) {
    OB_MERGE(one, two)
  } else {
    OB_MERGE(two, one)
  }
}

#else

#define OB_EACH 8  // adjacent elements per work-item
#define OB_RUN (OB_EACH * OB_LOCAL)
// One element of padding per 32: work-items OB_EACH apart access different banks.
#define OB_AT(i) ((i) + (i) / 32)

#define OB_TILE                                  \
  __local V tile_keys[OB_AT(OB_RUN) + 1];        \
  __local int tile_locations[OB_AT(OB_RUN) + 1]; \
  V keys[OB_EACH];                               \
  int locations[OB_EACH];

#define OB_KEY_OF_TILE(i) tile_keys[OB_AT(i)]
#define OB_WRITE_OWN(first, count)                                  \
  OB_UNROLL for (int i = 0; i < OB_EACH; ++i) {                     \
    if (i >= (count)) continue;                                     \
    tile_keys[OB_AT((first) + i)] = keys[i];                        \
    tile_locations[OB_AT((first) + i)] = locations[i];              \
  }

// `count` elements from `skipped` on of the merge of [begin, middle) and [middle, end) of the tile.
#define OB_MERGE_OWN(begin, middle, end, skipped, count)                                    \
  {                                                                                         \
    OB_SPLIT(int, taken, OB_KEY_OF_TILE, begin, middle, end, skipped)                       \
    int a = (begin) + taken, b = (middle) + (skipped) - taken;                              \
    V first_key = tile_keys[OB_AT(a)], second_key = tile_keys[OB_AT(b)];                    \
    OB_UNROLL for (int i = 0; i < OB_EACH; ++i) {                                           \
      if (i >= (count)) continue;                                                           \
      const bool second = a >= (middle) || (b < (end) && ob_before(second_key, first_key)); \
      keys[i] = second ? second_key : first_key;                                            \
      locations[i] = tile_locations[OB_AT(second ? b : a)];                                 \
      if (second) {                                                                         \
        b = min(b + 1, OB_RUN);                                                             \
        second_key = tile_keys[OB_AT(b)];                                                   \
      } else {                                                                              \
        a = min(a + 1, OB_RUN);                                                             \
        first_key = tile_keys[OB_AT(a)];                                                    \
      }                                                                                     \
    }                                                                                       \
  }

// USE(slot, line, at) for the elements of a tile in memory order: element `at` of a line. A tile
// has OB_RUN elements of a line, or several lines with stride `slots`.
#define OB_FOR_TILE(USE)                                                                        \
  for (int slot = OB_LANE; slot < OB_RUN; slot += OB_LOCAL) {                                   \
    const int which = slot / slots;                                                             \
    const ob_index line = first_line + which, at = first + slot - which * slots;                \
    if (which < line_count && line < lines && slot - which * slots < count) USE(slot, line, at) \
  }

__kernel void sort_runs(OB_PARAMETERS) {
  OB_BEGIN
  OB_TILE
  const int line_lanes = (int)min((n + OB_EACH - 1) / OB_EACH, (ob_index)OB_LOCAL);
  const int line_count = OB_LOCAL / line_lanes, slots = line_lanes * OB_EACH;
  const ob_index group = get_group_id(0);
  const ob_index first_line = runs > 1 ? group / runs : group * line_count;
  const ob_index first = runs > 1 ? (group - first_line * runs) * OB_RUN : 0;
  const int count = (int)min((ob_index)OB_RUN, n - first);  // of a line
#define READ(slot, line, at)                                                                  \
  {                                                                                           \
    tile_keys[OB_AT(slot)] = self_load(ob_line(self_layout, dim, line) + (at) * self_stride); \
  }
  OB_FOR_TILE(READ)
  barrier(CLK_LOCAL_MEM_FENCE);
  const int which = (int)OB_LANE / line_lanes, base = which * slots;
  const int own = ((int)OB_LANE - which * line_lanes) * OB_EACH;
  const int own_count = which < line_count && first_line + which < lines ? count - own : 0;
  OB_UNROLL for (int i = 0; i < OB_EACH; ++i) {
    if (i < own_count) keys[i] = tile_keys[OB_AT(base + own + i)];
    locations[i] = (int)first + own + i;
  }
  // Odd-even transposition sort: its indices are constants, so that all elements stay in registers.
  OB_UNROLL for (int round = 0; round < OB_EACH; ++round) {
    OB_UNROLL for (int i = round % 2; i + 1 < OB_EACH; i += 2) {
      if (i + 1 < own_count && ob_before(keys[i + 1], keys[i])) {
        const V key = keys[i];
        const int location = locations[i];
        keys[i] = keys[i + 1];
        locations[i] = locations[i + 1];
        keys[i + 1] = key;
        locations[i + 1] = location;
      }
    }
  }
  OB_WRITE_OWN(base + own, own_count)
  for (int width = OB_EACH; width < count; width *= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (own_count > 0) {
      const int pair = own / width / 2 * width * 2;
      const int middle = base + min(pair + width, count), end = base + min(pair + width * 2, count);
      const int skipped = own - pair;
      OB_MERGE_OWN(base + pair, middle, end, skipped, own_count)
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    OB_WRITE_OWN(base + own, own_count)
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#if DIRECT
#define WRITE(slot, line, at)                                                                    \
  {                                                                                              \
    values_store((ob_line(values_layout, dim, line) + (at) * values_stride), tile_keys[OB_AT(slot)]); \
    indices_store((ob_line(indices_layout, dim, line) + (at) * indices_stride),                  \
                  (long)tile_locations[OB_AT(slot)]);                                            \
  }
#else
#define WRITE(slot, line, at)                                       \
  {                                                                 \
    one_store(((line) * n + (at)), tile_keys[OB_AT(slot)]);         \
    one_locations[(line) * n + (at)] = tile_locations[OB_AT(slot)]; \
  }
#endif
  OB_FOR_TILE(WRITE)
}

#define OB_MERGE(from, to)                                                         \
  if (OB_LANE < 2) {                                                               \
    const ob_index ends = OB_LANE == 0 ? skipped : skipped + count;                \
    OB_SPLIT(ob_index, taken, from##_load, begin, middle, end, ends)               \
    split[OB_LANE] = taken;                                                        \
  }                                                                                \
  barrier(CLK_LOCAL_MEM_FENCE);                                                    \
  const int of_first = (int)(split[1] - split[0]);                                 \
  const ob_index a = begin + split[0], b = middle + skipped - split[0] - of_first; \
  for (int slot = OB_LANE; slot < count; slot += OB_LOCAL) {                       \
    const ob_index source = (slot < of_first ? a : b) + slot;                      \
    tile_keys[OB_AT(slot)] = from##_load(source);                                  \
    tile_locations[OB_AT(slot)] = from##_locations[source];                        \
  }                                                                                \
  barrier(CLK_LOCAL_MEM_FENCE);                                                    \
  if (own_count > 0) OB_MERGE_OWN(0, of_first, count, own, own_count)              \
  barrier(CLK_LOCAL_MEM_FENCE);                                                    \
  OB_WRITE_OWN(own, own_count)                                                     \
  barrier(CLK_LOCAL_MEM_FENCE);                                                    \
  for (int slot = OB_LANE; slot < count; slot += OB_LOCAL) {                       \
    to##_store((base + first + slot), tile_keys[OB_AT(slot)]);                     \
    to##_locations[base + first + slot] = tile_locations[OB_AT(slot)];             \
  }

__kernel void merge_runs(OB_PARAMETERS) {
  OB_BEGIN
  OB_TILE
  __local ob_index split[2];
  const ob_index line = (ob_index)get_group_id(0) / runs;
  const ob_index first = ((ob_index)get_group_id(0) - line * runs) * OB_RUN;
  OB_PAIR
  const int count = (int)min((ob_index)OB_RUN, n - first);
  const int own = (int)OB_LANE * OB_EACH, own_count = count - own;
  if (ob_step % 2 == 0) {
    OB_MERGE(one, two)
  } else {
    OB_MERGE(two, one)
  }
}
#endif

#define SORTED_KEY(i) (passes % 2 == 0 ? one_load(i) : two_load(i))
#define SORTED_LOCATION(i) (passes % 2 == 0 ? one_locations[i] : two_locations[i])

#if MODE

// The most frequent value of each sorted line, the smallest of several, and its last index before
// sorting.

__kernel void mode(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(line)
  const ob_index start = line * n;
  ob_index longest = 0;
  ob_index count = 0;
  V key = SORTED_KEY(start);
  V best = key;
  long location = 0;
  for (ob_index i = start; i < start + n; ++i) {
    const int is_last = i + 1 == start + n;
    const V next = is_last ? key : SORTED_KEY(i + 1);
    ++count;
    if (!is_last && key == next) continue;
    if (count > longest) {
      longest = count;
      best = key;
      location = SORTED_LOCATION(i);
    }
    count = 0;
    key = next;
  }
  values_store(line, best);
  indices_store(line, location);
}

#else

// Writes sorted keys and their indices to the results.

__kernel void write_sorted(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  const ob_index line = i / n;
  const ob_index at = i - line * n;
  const V key = SORTED_KEY(i);
  const int location = SORTED_LOCATION(i);
  values_store(ob_line(values_layout, dim, line) + at * values_stride, key);
  indices_store(ob_line(indices_layout, dim, line) + at * indices_stride, (long)location);
}

#endif

#endif
