// Work distribution: vectors and work-groups of a device, and many calls in one launch.
#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "runtime/export.h"
#include "runtime/programs/launch.h"

namespace outboard {

// Quotients and multiples rounded up, of values that are not negative.
template <class Number>
constexpr Number divide_up(Number value, std::type_identity_t<Number> by) {
  return (value + by - 1) / by;
}
template <class Number>
constexpr Number round_up(Number value, std::type_identity_t<Number> multiple) {
  return divide_up(value, multiple) * multiple;
}

// `vector_bytes`: size of explicit vectors. `chunk`: elements per work-item in kernels over many
// elements, a multiple of every width; 0: one vector, so that adjacent work-items read adjacent
// vectors. `local`: the only work-group size of such kernels, since a compiler may need a second
// per size.
struct WorkShape {
  int vector_bytes;
  int chunk;
  int local;

  // Elements of a vector with values of up to `item_bytes` bytes: 2, 4, 8 or 16.
  int width(int item_bytes) const { return std::clamp(vector_bytes / item_bytes, 2, 16); }
  // Elements per work-item, in vectors of `width`.
  int elements(int width) const { return chunk == 0 ? width : chunk; }
};

// A CPU needs explicit wide vectors and long loops, a GPU short ones and many work-items.
OUTBOARD_API WorkShape work_shape(c10::DeviceIndex device);

// Work-items that share the work of a group: 1 on a CPU, which runs them sequentially.
OUTBOARD_API int group_lanes(c10::DeviceIndex device);

constexpr size_t kMostCalls = 128;  // per launch

// Largest number of calls per launch. Each call has `pointers` and further `bytes`; all calls share
// `common` pointers and `common_bytes`.
size_t most_calls(c10::DeviceIndex device, size_t pointers, size_t bytes, size_t common,
                  size_t common_bytes = 0);

// The argument `ob_calls` of kernels of many calls: a table of sizes and of ends, in work-groups,
// in which a work-group finds its call. Unused slots have no elements.
class CallTable {
 public:
  explicit CallTable(size_t room) : room_(room) {}

  void add(uint64_t size, uint64_t elements_of_group) {
    groups_ += (size + elements_of_group - 1) / elements_of_group;
    table_[room_ + count_] = static_cast<uint32_t>(size);
    table_[count_++] = static_cast<uint32_t>(groups_);
  }
  uint64_t groups() const noexcept { return groups_; }
  void add_to(LaunchArguments& arguments) {
    std::fill(table_.begin() + count_, table_.begin() + room_, static_cast<uint32_t>(groups_));
    arguments.bytes(table_.data(), 2 * room_ * sizeof(uint32_t));
  }

 private:
  const size_t room_;
  size_t count_ = 0;
  uint64_t groups_ = 0;
  std::array<uint32_t, 2 * kMostCalls> table_ = {};
};

}  // namespace outboard
