// The argument `ob_calls` of kernels of many calls: a table of sizes and of ends, in work-groups,
// by which a work-group finds its call.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "runtime/driver/device.h"
#include "runtime/programs/launch.h"

namespace outboard {

constexpr size_t kMostCalls = 128;

// Largest number of calls per launch. Each call has `pointers` and further `bytes`; all calls share
// `common` pointers and `common_bytes`.
inline size_t most_calls(c10::DeviceIndex device, size_t pointers, size_t bytes, size_t common,
                         size_t common_bytes = 0) {
  constexpr size_t kArguments = 240;      // per launch, without common ones
  constexpr size_t kArgumentBytes = 992;  // OpenCL guarantees 1024; alignment takes some
  const bool handles = device_properties(device).addressing == OB_ADDRESSING_HANDLE;
  const size_t pointer = handles ? 16 : 8;
  const size_t taken = std::min(kArgumentBytes, common * pointer + common_bytes);
  const size_t each = pointers * pointer + bytes + 2 * sizeof(uint32_t);
  const size_t room = std::min(kMostCalls, (kArgumentBytes - taken) / each);
  return pointers == 0 ? room : std::min(room, kArguments / pointers);
}

// Unused slots have no elements.
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
