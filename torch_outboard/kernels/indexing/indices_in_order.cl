// Indices shared by work-groups: a group processes indices whose low bits equal its number, in
// order. So no two groups write to one index, and sums are reproducible.
//
//   INDICES_SCRATCH                                   // at the kernel's start
//   for (ob_index begin = 0; begin < count; begin += INDICES_AT_ONCE) {
//     FIND_INDICES(begin, count, INDEX, range, ranges)
//     // `found` elements from `begin` on: the t-th is found_at[t], its index found_index[t].
//   }
//
// INDEX(k) is -1 if element k is ignored. `ranges` is a power of two. A CPU takes one element at a
// time.

#if OB_LOCAL == 1

#define INDICES_AT_ONCE 1
#define INDICES_SCRATCH ob_index found_at[1], found_index[1];
#define FIND_INDICES(begin, count, INDEX, range, ranges)                                    \
  found_at[0] = begin;                                                                      \
  found_index[0] = INDEX((begin));                                                          \
  const int found = found_index[0] >= 0 && (found_index[0] & ((ranges) - 1)) == (range);
#define INDEX_TEAMS(n, width) const ob_index team_lane = 0, team_lanes = 1;
#define OF_MY_TEAM(index, ranges) 1

#else

#define INDICES_OF_ITEM 8
#define INDICES_AT_ONCE (INDICES_OF_ITEM * OB_LOCAL)
#define INDICES_WORDS ((INDICES_AT_ONCE + 31) / 32)

#define INDICES_SCRATCH                                                   \
  __local uint ob_marks[INDICES_WORDS];                                   \
  __local int ob_found[1];                                                \
  __local ob_index found_at[INDICES_AT_ONCE], found_index[INDICES_AT_ONCE];

// Each work-item sets a bit per element found. The number of bits before its own is its offset.
#define FIND_INDICES(begin, count, INDEX, range, ranges)                                         \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
  for (int word = OB_LANE; word < INDICES_WORDS; word += OB_LOCAL) ob_marks[word] = 0;           \
  if (OB_LANE == 0) atomic_xchg(ob_found, 0);                                                    \
  ob_index ob_indices[INDICES_OF_ITEM];                                                          \
  OB_UNROLL for (int u = 0; u < INDICES_OF_ITEM; ++u) {                                          \
    const ob_index ob_at = (begin) + u * OB_LOCAL + OB_LANE;                                     \
    ob_indices[u] = ob_at < (count) ? INDEX(ob_at) : -1;                                         \
  }                                                                                              \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
  OB_UNROLL for (int u = 0; u < INDICES_OF_ITEM; ++u) {                                          \
    const int ob_at = u * OB_LOCAL + (int)OB_LANE;                                               \
    if (ob_indices[u] >= 0 && (ob_indices[u] & ((ranges) - 1)) == (range)) {                     \
      atomic_or(ob_marks + ob_at / 32, 1u << (ob_at & 31));                                      \
      atomic_inc(ob_found);                                                                      \
    } else {                                                                                     \
      ob_indices[u] = -1;                                                                        \
    }                                                                                            \
  }                                                                                              \
  barrier(CLK_LOCAL_MEM_FENCE);                                                                  \
  const int found = ob_found[0];                                                                 \
  OB_UNROLL for (int u = 0; u < INDICES_OF_ITEM; ++u) {                                          \
    const int ob_at = u * OB_LOCAL + (int)OB_LANE;                                               \
    if (ob_indices[u] < 0) continue;                                                             \
    int before = popcount(ob_marks[ob_at / 32] & ((1u << (ob_at & 31)) - 1));                    \
    for (int word = 0; word < ob_at / 32; ++word) before += popcount(ob_marks[word]);            \
    found_at[before] = (begin) + ob_at;                                                          \
    found_index[before] = ob_indices[u];                                                         \
  }                                                                                              \
  barrier(CLK_LOCAL_MEM_FENCE);

// Rows of n elements are processed by teams of work-items, in vectors of `width` elements. For
// short rows a group has several teams, which share the group's indices.
#define INDEX_TEAMS(n, width)                                                           \
  const ob_index team_lanes = min(((n) + (width) - 1) / (width), (ob_index)OB_LOCAL);   \
  const ob_index teams = OB_LOCAL / team_lanes, team = OB_LANE / team_lanes;            \
  const ob_index team_lane = OB_LANE - team * team_lanes;
#define OF_MY_TEAM(index, ranges) (teams == 1 ? team == 0 : (index) / (ranges) % teams == team)

#endif
