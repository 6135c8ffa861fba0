// Calls that take so long that `auto` measures what they take on the program's own: tables are of
// other calls and often of another processor.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "dispatch/ways.h"
#include "runtime/export.h"

namespace outboard {

// An operator's calls of one kind (sizes, dtype) on a device. They start as the table says. Once
// they have worked for kMeasuringPatience, the next ones go both ways in turn, and what the host
// saves in them stands in the table's place from then on. Every call happens once, so results are
// right meanwhile. May be used by several threads.
class OUTBOARD_API MeasuredCalls {
 public:
  // The gradients of a call go the way that it went, and count with it.
  enum class Part : uint8_t { kForward, kBackward };

  // Null once there are too many kinds: such calls have no kind that would come again.
  static MeasuredCalls* of(std::string_view op, std::vector<int64_t> kind);

  explicit MeasuredCalls(c10::DeviceIndex device) : device_(device) {}

  // Whether the next forward goes the device's way. `elements`: as of takes_device_way.
  bool takes_device_way(const OperatorWays& ways, int64_t elements);

  // Runs a part of a call, between two waits if its time is wanted.
  template <class Run>
  auto run(Part part, bool on_device, const Run& run) -> decltype(run()) {
    if (!wants(part, on_device)) return run();
    const int64_t start = wait_and_read_clock();
    auto result = run();
    add(part, on_device, wait_and_read_clock() - start);
    return result;
  }

 private:
  // Nanoseconds; of each part the least time and the number of times, by device and host.
  struct Times {
    int64_t least = std::numeric_limits<int64_t>::max();
    int count = 0;
  };

  bool wants(Part part, bool on_device);
  void add(Part part, bool on_device, int64_t nanoseconds);
  int64_t wait_and_read_clock() const;
  Times& times(Part part, bool on_device) noexcept {
    return times_[static_cast<size_t>(part)][on_device ? 1 : 0];
  }
  int64_t least(bool on_device) noexcept;
  std::optional<bool> next_turn();

  const c10::DeviceIndex device_;
  std::mutex mutex_;
  std::array<std::array<Times, 2>, 2> times_;
  int64_t calls_ = 0;
  int turns_ = 0;
  std::optional<int64_t> saved_;
};

// Nanoseconds of work by which graphs have their ways tried, too
// (torch_outboard/inductor/ways/choice.py).
constexpr int64_t kMeasuringPatience = 1'000'000'000;

}  // namespace outboard
