#include "transfer/copy_plan.h"

#include <algorithm>
#include <tuple>

namespace outboard {

namespace {

// A driver without 2-D copies issues a copy per row, which costs about a microsecond each.
constexpr int64_t kFewRows = 16;
constexpr int64_t kLongRow = 512;  // bytes
constexpr int64_t kMostRepetitions = 1024;

}  // namespace

int64_t CopyPlan::repetitions() const {
  int64_t result = 1;
  for (const CopyLoop& loop : loops) result *= loop.count;
  return result;
}

bool CopyPlan::suits_driver() const {
  if (dense()) return true;
  const int64_t times = repetitions();
  return rows * times <= kFewRows || (row_bytes >= kLongRow && times <= kMostRepetitions);
}

CopyPlan plan_copy(c10::IntArrayRef sizes, c10::IntArrayRef destination_strides,
                   c10::IntArrayRef source_strides, int64_t itemsize) {
  // Dimensions from the innermost (smallest strides) to the outermost.
  c10::SmallVector<CopyLoop, 6> dims;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    dims.push_back({sizes[i], destination_strides[i] * itemsize, source_strides[i] * itemsize});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const CopyLoop& a, const CopyLoop& b) {
    return std::tie(a.destination_step, a.source_step) <
           std::tie(b.destination_step, b.source_step);
  });

  c10::SmallVector<CopyLoop, 6> merged;
  for (const CopyLoop& dim : dims) {
    if (!merged.empty()) {
      CopyLoop& inner = merged.back();
      if (dim.destination_step == inner.destination_step * inner.count &&
          dim.source_step == inner.source_step * inner.count) {
        inner.count *= dim.count;
        continue;
      }
    }
    merged.push_back(dim);
  }

  CopyPlan plan;
  plan.row_bytes = itemsize;
  auto outer = merged.begin();
  if (outer != merged.end() && outer->destination_step == itemsize &&
      outer->source_step == itemsize) {
    plan.row_bytes *= outer->count;
    ++outer;
  }
  auto rows = merged.end();
  for (auto dim = outer; dim != merged.end(); ++dim) {
    if (dim->destination_step >= plan.row_bytes && dim->source_step >= plan.row_bytes &&
        (rows == merged.end() || dim->count > rows->count)) {
      rows = dim;
    }
  }
  if (rows != merged.end()) {
    plan.rows = rows->count;
    plan.destination_pitch = rows->destination_step;
    plan.source_pitch = rows->source_step;
  }
  for (auto dim = outer; dim != merged.end(); ++dim) {
    if (dim != rows) plan.loops.push_back(*dim);
  }
  return plan;
}

}  // namespace outboard
