// The geometry of a copy: two layouts of the same elements become a short list of pitched copies.
#pragma once

#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

namespace outboard {

// One run of equal dimensions that no pitched copy covers. Steps are in bytes.
struct CopyLoop {
  int64_t count;
  int64_t destination_step;
  int64_t source_step;
};

// `rows` rows of `row_bytes` contiguous bytes, repeated for every combination of the loops.
// Pitches are at least `row_bytes`.
struct CopyPlan {
  int64_t row_bytes = 0;
  int64_t rows = 1;
  int64_t destination_pitch = 0;
  int64_t source_pitch = 0;
  c10::SmallVector<CopyLoop, 4> loops;

  // One run of bytes on both sides.
  bool dense() const { return rows == 1 && loops.empty(); }
  // How often the pitched copy is repeated.
  int64_t repetitions() const;
  int64_t bytes() const { return row_bytes * rows * repetitions(); }
  // Whether a list of driver calls is a sensible way to do it, also for a driver that copies row
  // by row; otherwise moving the whole span through the host is faster.
  bool suits_driver() const;

  // Calls visit(destination_offset, source_offset), in bytes, for each repetition.
  template <class Visit>
  void for_each(Visit&& visit) const {
    c10::SmallVector<int64_t, 4> index(loops.size(), 0);
    int64_t destination = 0;
    int64_t source = 0;
    while (true) {
      visit(destination, source);
      size_t level = 0;
      for (; level < loops.size(); ++level) {
        const CopyLoop& loop = loops[level];
        destination += loop.destination_step;
        source += loop.source_step;
        if (++index[level] < loop.count) break;
        destination -= loop.count * loop.destination_step;
        source -= loop.count * loop.source_step;
        index[level] = 0;
      }
      if (level == loops.size()) return;
    }
  }
};

// Both sides have `sizes`, strides in elements of `itemsize` bytes, and at least one element. A
// source stride may be 0 (expanded).
CopyPlan plan_copy(c10::IntArrayRef sizes, c10::IntArrayRef destination_strides,
                   c10::IntArrayRef source_strides, int64_t itemsize);

}  // namespace outboard
