// Whether the kit's device kernels or its host kernels run an operator: a setting per device.
// Kernels of makers and users are not concerned; they always run.
#pragma once

#include <c10/core/Device.h>

#include <atomic>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

enum class WaySetting : uint8_t {
  kAuto = 0,    // whatever is better, by the device's ranges
  kDevice = 1,  // the kit's device kernels, wherever one serves
  kHost = 2,    // never
};

OUTBOARD_API WaySetting way_setting(c10::DeviceIndex device);
// device -1: every device, also those that are not known yet.
OUTBOARD_API void set_way_setting(c10::DeviceIndex device, WaySetting setting);

// What `auto` means on a device: for a family or a single operator ("aten::add", which stands for
// its overloads and their in-place and out= forms), the numbers of elements for which the device's
// kernels are better than the host's.
struct ElementRange {
  int64_t from;
  int64_t to;  // exclusive, kUnbounded for none
};
constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max();
using WayRanges = std::map<std::string, std::vector<ElementRange>, std::less<>>;

// An operator that `ranges` does not name follows its family, and a family that it does not name
// the default: never where a CPU shares its memory with the host, always elsewhere.
OUTBOARD_API void set_way_ranges(c10::DeviceIndex device, WayRanges ranges);
// Those that were set, without the default.
OUTBOARD_API WayRanges way_ranges(c10::DeviceIndex device);

// The operator of an overload as ranges name it: "aten::add" for "aten::add_.Tensor".
OUTBOARD_API std::string operator_of(std::string_view overload);

// The kind of work that a call is.
struct WaySubject {
  std::string_view op;  // as operator_of gives it
  std::string_view family;
};

// The one place that decides for a call that a device kernel of the kit could serve. `elements`
// says how much work it is: of the first tensor argument or of all tensors in a first list, 0 for a
// factory.
OUTBOARD_API bool takes_device_way(c10::DeviceIndex device, const WaySubject& subject,
                                   int64_t elements);

// What calls take whose way is decided inside of other kernels, whatever `auto` says of them.
enum class InnerWay : uint8_t { kOpen, kDevice, kHost };

class OUTBOARD_API InnerWayScope {
 public:
  explicit InnerWayScope(InnerWay way) noexcept : previous_(std::exchange(current(), way)) {}
  ~InnerWayScope() { current() = previous_; }
  InnerWayScope(const InnerWayScope&) = delete;
  InnerWayScope& operator=(const InnerWayScope&) = delete;
  static InnerWay& current() noexcept;

 private:
  const InnerWay previous_;
};

// For host kernels that call other operators while they read and write memory by themselves: in
// such a scope the thread takes no device way, since nothing may become work on a queue meanwhile.
class HostWayScope : InnerWayScope {
 public:
  HostWayScope() noexcept : InnerWayScope(InnerWay::kHost) {}
};

// To be called with new memory of `stream` that operators allocate: what runs in a HostWayScope
// writes it at once, and whoever had the memory before may have given work to the stream since the
// host kernel waited for it.
inline void wait_for_new_memory(StreamState& stream) {
  if (InnerWayScope::current() == InnerWay::kHost) drain(stream);
}

// For device kernels that need other operators: the host's way would wait for the queue. Only calls
// that ask the router know of it, not typed host kernels whose device way is open nowhere.
class DeviceWayScope : InnerWayScope {
 public:
  DeviceWayScope() noexcept : InnerWayScope(InnerWay::kDevice) {}
};

// Whether a device kernel may do such work somewhere on memory that the host shares: typed host
// kernels have to ask the router then.
bool device_way_is_open(const WaySubject& subject) noexcept;

// Brings the kit's device kernels: called before the first routed call, with no lock held, possibly
// by several threads at once, and only where a device can run code or the driver has library calls.
// It ends with device_kernels_are_there.
using BringDeviceKernels = void (*)();
OUTBOARD_API void set_bring_device_kernels(BringDeviceKernels function) noexcept;
OUTBOARD_API void device_kernels_are_there() noexcept;

// Looks whether the compilers of devices work that run code and whose way is not `host`. Where one
// does not, `auto` means the host, which is said once, and `device` raises why.
OUTBOARD_API void probe_compilers();

extern OUTBOARD_API std::atomic<bool> g_device_kernels_settled;
OUTBOARD_API void settle_device_kernels();
// Makes sure that the router knows the kit's device kernels, if they can be of use.
inline void ensure_device_kernels() {
  if (__builtin_expect(!g_device_kernels_settled.load(std::memory_order_acquire), 0)) {
    settle_device_kernels();
  }
}

}  // namespace outboard
