// The element of a line with a given rank in sorted order, and its index; of equal elements the one
// that a stable sort puts there. Radix select: a work-group counts the elements by 8 bits of an
// order-preserving unsigned key, continues with the elements of the selected digit, and so on.
// MODE: 0 the given rank; 1 the median, or the first NaN; 2 the median without NaN. Needs
// indices_in_order.cl before it.

#define OB_WIDE (OB_DTYPE_BITS == 64)
#if OB_WIDE
typedef ulong ob_key_t;
#define OB_KEY_BITS 64
#else
typedef uint ob_key_t;
#define OB_KEY_BITS 32
#endif

static inline ob_key_t ob_key(const V value) {
  const ob_key_t top = (ob_key_t)1 << (OB_KEY_BITS - 1);
#if OB_FLOATING
#if OB_WIDE
  const ob_key_t bits = as_ulong(value == 0 ? 0 : value);
#else
  const ob_key_t bits = as_uint(value == 0 ? 0 : value);
#endif
  if (value != value) return ~(ob_key_t)0;
  return bits & top ? ~bits : bits | top;
#else
  return (ob_key_t)value ^ top;
#endif
}

#if OB_LOCAL == 1
#define OB_COUNT(counter) ++(counter)
#define OB_COUNTERS int
#else
#define OB_COUNT(counter) atomic_inc(&(counter))
#define OB_COUNTERS __local int
#endif
// Several counters, because adjacent elements are often equal and would wait for one counter.
#define OB_COPIES (OB_LOCAL == 1 ? 4 : 1)

__kernel void select_rank(OB_PARAMETERS) {
  OB_BEGIN
  OB_COUNTERS counts[OB_COPIES * 256];
  OB_COUNTERS found_nans[1];
  INDICES_SCRATCH
  OB_FOR_GROUPS(line) {
    const ob_index start = ob_line(self_layout, dim, line);
    ob_index wanted = rank;
    ob_key_t known = 0;
    ob_index nans = 0;
    for (int shift = OB_KEY_BITS - 8; shift >= 0; shift -= 8) {
      OB_BARRIER
      for (int i = OB_LANE; i < OB_COPIES * 256; i += OB_LOCAL) counts[i] = 0;
      if (OB_LANE == 0) found_nans[0] = 0;
      OB_BARRIER
      // Two shifts, because C does not define one by OB_KEY_BITS.
      const ob_key_t above = shift + 8 < OB_KEY_BITS ? ~(ob_key_t)0 << (shift + 7) << 1 : 0;
      for (ob_index i = OB_LANE; i < n; i += OB_LOCAL) {
        const ob_key_t key = ob_key(self_load(start + i * self_stride));
        if (MODE != 0 && above == 0 && key == ~(ob_key_t)0 && OB_FLOATING) OB_COUNT(found_nans[0]);
        if (((key ^ known) & above) == 0) {
          OB_COUNT(counts[(i & (OB_COPIES - 1)) * 256 + (int)((key >> shift) & 255)]);
        }
      }
      OB_BARRIER
      if (MODE != 0 && above == 0) {
        nans = found_nans[0];
        wanted = MODE == 1 && nans > 0 ? n - nans : (n - 1 - (MODE == 2 ? nans : 0)) / 2;
        if (MODE == 2 && nans == n) wanted = 0;
      }
      for (int digit = 0; digit < 256; ++digit) {
        ob_index here = 0;
        for (int copy = 0; copy < OB_COPIES; ++copy) here += counts[copy * 256 + digit];
        if (wanted < here) {
          known |= (ob_key_t)digit << shift;
          break;
        }
        wanted -= here;
      }
    }
    OB_BARRIER
#define SAME(i) (ob_key(self_load(start + (i) * self_stride)) == known ? 0 : -1)
    for (ob_index begin = 0; begin < n && wanted >= 0; begin += INDICES_AT_ONCE) {
      FIND_INDICES(begin, n, SAME, 0, 1)
      if (OB_LANE == 0 && wanted < found) {
        const ob_index location = found_at[wanted];
        values_store(line, self_load(start + location * self_stride));
        indices_store(line, (long)location);
      }
      wanted -= found;
    }
  }
}
