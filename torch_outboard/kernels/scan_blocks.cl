// Scans of long rows, whose elements lie `inner` apart, in blocks of `block` elements, each by a
// group: first the state of whole blocks, then each block with what the ones before it make.

#define BLOCK                                                              \
  const ob_index row = item / blocks, which = item - row * blocks;         \
  const ob_index start = row / inner * inner * n + row % inner;            \
  const ob_index first = which * block, last = min(first + block, n);

__kernel void scan_parts(OB_PARAMETERS) {
  OB_BEGIN
#if OB_LOCAL > 1
  __local State scratch[OB_LOCAL];
#endif
  OB_FOR_GROUPS(item) {
    BLOCK
#if OB_LOCAL == 1
    State s = STATE_OF(ELEMENT(start + first * inner), first);
    for (ob_index i = first + 1; i < last; ++i) {
      s = join(s, STATE_OF(ELEMENT(start + i * inner), i));
    }
#else
    // A lane takes a run, so that the order is kept.
    const ob_index run = (last - first + OB_LOCAL - 1) / OB_LOCAL;
    const ob_index from = min(first + OB_LANE * run, last), to = min(from + run, last);
    State s = STATE_OF(ELEMENT(start + min(from, last - 1) * inner), from);
    for (ob_index i = from + 1; i < to; ++i) {
      s = join(s, STATE_OF(ELEMENT(start + i * inner), i));
    }
    OB_BARRIER
    scratch[OB_LANE] = s;
    OB_BARRIER
    if (OB_LANE == 0) {
      for (ob_index lane = 1; lane < OB_LOCAL && first + lane * run < last; ++lane) {
        s = join(s, scratch[lane]);
      }
    }
#endif
    if (OB_LANE == 0) {
      part_values_store(item, s.value);
#if TWO_VALUES
      part_rests_store(item, s.rest);
#elif SCAN >= 3
      part_places_store(item, s.rest);
#endif
    }
  }
}

static inline State part_of(const V value, const V rest, const ob_index place) {
#if TWO_VALUES
  return (State){value, rest};
#elif SCAN >= 3
  return (State){value, place};
#else
  return (State){value};
#endif
}

__kernel void scan_blocks(OB_PARAMETERS) {
  OB_BEGIN
#if OB_LOCAL > 1
  __local State scratch[OB_LOCAL];
#endif
  OB_FOR_GROUPS(item) {
    BLOCK
    State before;
    for (ob_index other = row * blocks; other < item; ++other) {
      const State part =
          part_of(part_values_load(other), part_rests_load(other), part_places_load(other));
      before = other == row * blocks ? part : join(before, part);
    }
#if OB_LOCAL == 1
    State s = STATE_OF(ELEMENT(start + first * inner), first);
    if (which > 0) s = join(before, s);
    STORE(start + first * inner, s)
    for (ob_index i = first + 1; i < last; ++i) {
      s = join(s, STATE_OF(ELEMENT(start + i * inner), i));
      STORE(start + i * inner, s)
    }
#else
    bool some = which > 0;
    for (ob_index from = first; from < last; from += OB_LOCAL) {
      const ob_index i = min(from + OB_LANE, last - 1);
      State s = STATE_OF(ELEMENT(start + i * inner), i);
      for (int step = 1; step < OB_LOCAL; step *= 2) {
        OB_BARRIER
        scratch[OB_LANE] = s;
        OB_BARRIER
        if (OB_LANE >= step) s = join(scratch[OB_LANE - step], s);
      }
      if (some) s = join(before, s);
      OB_BARRIER
      scratch[OB_LANE] = s;
      OB_BARRIER
      before = scratch[OB_LOCAL - 1];
      some = true;
      if (from + OB_LANE < last) {
        STORE(start + i * inner, s)
      }
    }
#endif
  }
}
