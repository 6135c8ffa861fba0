// The clock of a device, and what it is on the host's.
//
// OpenCL 2.1 has a function for both at once, which few platforms have. But a command's
// CL_PROFILING_COMMAND_QUEUED is the device's time of an enqueue, before and after which the host
// can look at its own clock.
#include <threads/threads.h>

#include <optional>

#include "ocl.h"

namespace ocl {
namespace {

constexpr int kTries = 5;
// The clocks of a machine go apart by some microseconds in this time.
constexpr int64_t kMeasureAgainAfter = 10'000'000'000;

int64_t host_time() { return static_cast<int64_t>(::nanoseconds()); }

// What has to be added to the device's time.
int64_t measure_offset(Device& device) {
  const std::unique_ptr<ob_queue_t> queue = make_queue(device, 0);
  std::optional<int64_t> offset;
  int64_t best = INT64_MAX;
  try {
    for (int i = 0; i < kTries; ++i) {
      const int64_t before = host_time();
      const EventReference marker = mark(queue.get(), true);
      const int64_t after = host_time();
      marker.wait();
      const int64_t queued = device_time(device, marker, CL_PROFILING_COMMAND_QUEUED);
      if (before <= queued && queued <= after) {
        offset = 0;  // it is the same clock
        break;
      }
      if (after - before >= best) continue;
      best = after - before;
      offset = before + best / 2 - queued;
    }
  } catch (const Failure&) {
    release_queue(*queue);
    throw;
  }
  release_queue(*queue);
  return *offset;
}

}  // namespace

int64_t device_time(const Device& device, const EventReference& event, cl_uint what) {
  cl_ulong nanoseconds = 0;
  check(device.api->clGetEventProfilingInfo(event.get(), what, sizeof nanoseconds, &nanoseconds,
                                            nullptr),
        "clGetEventProfilingInfo");
  return static_cast<int64_t>(nanoseconds);
}

int64_t to_host_time(Device& device, int64_t nanoseconds) {
  std::lock_guard lock(device.clock_mutex);
  const int64_t now = host_time();
  if (device.clock_measured == 0 || now - device.clock_measured > kMeasureAgainAfter) {
    device.clock_offset = measure_offset(device);
    device.clock_measured = now;
  }
  return nanoseconds + device.clock_offset;
}

}  // namespace ocl
