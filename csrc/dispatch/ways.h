// Whether the kit's device kernels or its host kernels run an operator: a setting per device.
// Kernels of makers and users are not concerned; they always run.
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

enum class WaySetting : uint8_t {
  kAuto = 0,    // whatever is better for the program
  kDevice = 1,  // the kit's device kernels, wherever one serves
  kHost = 2,    // never
};

OUTBOARD_API WaySetting way_setting(c10::DeviceIndex device);
// device -1: every device, also those that are not known yet.
OUTBOARD_API void set_way_setting(c10::DeviceIndex device, WaySetting setting);

// What a host kernel saves of the time of the device's, in nanoseconds, for calls with less than
// 2^i elements and at least half as many; negative where it loses. Of the device's time counts what
// Python cannot work beside.
using Savings = std::array<int32_t, 32>;
// By operator ("aten::add", which stands for its overloads and their in-place and out= forms), else
// by family of kernels. What is in neither saves nothing.
using SavingsTable = std::map<std::string, Savings, std::less<>>;

// What `auto` goes by where host and device share memory. Without a table: the device's kernels.
OUTBOARD_API void set_way_savings(c10::DeviceIndex device, std::optional<SavingsTable> table);
// Empty where none was set.
OUTBOARD_API SavingsTable way_savings(c10::DeviceIndex device);
// Null if the device has no table, or that does not name the operator.
const Savings* savings_of(c10::DeviceIndex device, std::string_view op, std::string_view family);

// The operator of an overload as tables name it: "aten::add" for "aten::add_.Tensor".
OUTBOARD_API std::string operator_of(std::string_view overload);

// What is known of an operator before a call; immutable, and replaced as a whole.
struct OperatorWays {
  bool others;                        // a maker or a user brought a kernel
  std::vector<const Savings*> saved;  // by device; null: nothing
  bool operator==(const OperatorWays&) const = default;
};

// The one place that decides for a call that a device kernel of the kit could serve: by the
// setting, and for `auto` by what the calls before would have saved. A program stays on one side
// until the other would have saved it kPatience more; the calls of a device together are the
// program. `elements` says how much work a call is: of the first tensor argument or of all tensors
// in a first list, 0 for a factory.
OUTBOARD_API bool takes_device_way(const OperatorWays& ways, c10::DeviceIndex device,
                                   int64_t elements);
// The same for a call in which a host kernel saves so many nanoseconds.
OUTBOARD_API bool takes_device_way_by(c10::DeviceIndex device, int64_t saved);
// Puts the program on a side, where it stays until the other would have saved it kHold more. For
// what was timed with all that a program does beside it on that side, whenever it runs. Does
// nothing where `auto` does not weigh.
OUTBOARD_API void put_program_on_side(c10::DeviceIndex device, bool host);
// Has the program begin anew: where programs do, and with nothing saved.
OUTBOARD_API void forget_side(c10::DeviceIndex device);
// Whether a call may go either way to see what it takes there: `auto` weighs, and neither a kernel
// around the call, nor a recording, nor deterministic algorithms fix the way.
OUTBOARD_API bool may_try_ways(c10::DeviceIndex device);
// False where the compiler is found to fail; then all stays on the host.
OUTBOARD_API bool device_way_works(c10::DeviceIndex device);
// Nanoseconds. Enough for a drain and for threads that have to be woken; not so much that a short
// program never gets there.
constexpr int64_t kPatience = 4'000'000;
// Nanoseconds: more than the operators of a step between two compiled graphs save.
constexpr int64_t kHold = 100'000'000;

// The same for a typed host kernel, which asks the router if the answer is no.
OUTBOARD_API bool stays_on_host(const OperatorWays& ways, c10::DeviceIndex device,
                                int64_t elements);

// What calls take whose way is decided inside of other kernels, whatever `auto` says.
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

// For device kernels that need other operators: the host's way would wait for the queue.
class DeviceWayScope : InnerWayScope {
 public:
  DeviceWayScope() noexcept : InnerWayScope(InnerWay::kDevice) {}
};

// Loads the kit's device kernels: called before the first routed call, with no lock held, possibly
// by several threads at once, and only where a device can run code or the driver has library calls.
// It ends with device_kernels_are_loaded.
using DeviceKernelLoader = void (*)();
OUTBOARD_API void set_device_kernel_loader(DeviceKernelLoader function) noexcept;
OUTBOARD_API void device_kernels_are_loaded() noexcept;

// Looks whether the compilers of devices work that run code and whose way is not `host`. Where one
// does not, `auto` means the host, which is said once, and `device` raises why. Where `auto` begins
// on the host, the first call that it gives to the device looks.
OUTBOARD_API void probe_compilers();

extern OUTBOARD_API std::atomic<bool> g_device_kernels_loaded;
OUTBOARD_API void load_device_kernels_now();
// Makes sure that the router knows the kit's device kernels, if they can be of use.
inline void ensure_device_kernels() {
  if (__builtin_expect(!g_device_kernels_loaded.load(std::memory_order_acquire), 0)) {
    load_device_kernels_now();
  }
}

}  // namespace outboard
