// Programs and kernels: a source in OpenCL C, compiled once per device.
//
// Every source is preceded by the driver's prelude and the kit's. The macros of the kit's let one
// source serve devices that pass pointers and devices that pass (handle, offset):
//
//   __kernel void scale(OB_POINTER(float, x), float factor, uint count) {
//     OB_BIND(float, x)
//     const uint i = get_global_id(0);
//     if (i < count) x[i] *= factor;
//   }
//
// Pointers are never `restrict`: tensors share allocations.
#pragma once

#include <c10/core/Device.h>
#include <outboard/driver.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

class Program;

// A kernel of a program on one device. Never destroyed; any number of threads may launch it.
class OUTBOARD_API Kernel {
 public:
  Kernel(Program& program, std::string name) : program_(program), name_(std::move(name)) {}
  C10_DISABLE_COPY_AND_ASSIGN(Kernel);

  const std::string& name() const noexcept { return name_; }
  c10::DeviceIndex device() const noexcept;

  // Exclusive use of a driver's kernel object. Concurrent threads get different objects instead of
  // waiting: a driver may take the interpreter lock in `launch`.
  class Use {
   public:
    explicit Use(Kernel& kernel) : kernel_(kernel), handle_(kernel.acquire()) {}
    ~Use() { kernel_.release(handle_); }
    C10_DISABLE_COPY_AND_ASSIGN(Use);
    ob_kernel handle() const noexcept { return handle_; }

   private:
    Kernel& kernel_;
    ob_kernel handle_;
  };

  // Raises ValueError for a launch with a larger work-group (work-items) or more local memory in
  // its arguments (bytes) than this kernel can have. Call it during a Use.
  void check_limits(uint64_t work_group, uint64_t local_bytes) const {
    if (__builtin_expect(work_group > largest_group_.load(std::memory_order_relaxed) ||
                             local_bytes > local_bytes_.load(std::memory_order_relaxed),
                         0)) {
      refuse_launch(work_group, local_bytes);
    }
  }

  // Call after a launch with this work-group size: some drivers generate machine code only then,
  // and the disk cache stores it.
  void note_launch(uint64_t local_size) noexcept;

 private:
  friend void release_programs(const ob_driver& table, c10::DeviceIndex device) noexcept;

  ob_kernel acquire();
  void learn_limits(ob_kernel handle);
  [[noreturn]] void refuse_launch(uint64_t work_group, uint64_t local_bytes) const;
  void release(ob_kernel handle) noexcept;

  Program& program_;
  const std::string name_;
  std::atomic<ob_kernel> spare_{nullptr};
  std::mutex mutex_;  // of spares_; no driver call is made under it
  std::vector<ob_kernel> spares_;
  std::atomic<uint64_t> last_local_size_{0};
  // Set with the first handle.
  std::atomic<uint64_t> largest_group_{0};
  std::atomic<uint64_t> local_bytes_{0};
};

// Whether the driver can compile and launch code on `device`.
OUTBOARD_API bool runs_code(c10::DeviceIndex device);

// The kernel `name` of the program made of `source` with the compiler's `options` on `device`. The
// first call for a program loads it from disk or compiles it (seconds). Later ones look it up by
// its source, so callers on a hot path cache the reference. Raises NotImplementedError if the
// device runs no code, RuntimeError with the compiler's log and the lines it names if the source is
// wrong.
OUTBOARD_API Kernel& find_kernel(c10::DeviceIndex device, const std::string& source,
                                 const std::string& name, const std::string& options = "");

// The preludes before every source on `device`.
OUTBOARD_API std::string source_prelude(c10::DeviceIndex device);

// Releases programs and their kernels that are not in use: of a device before its reset, where they
// are loaded again on demand, or of all devices with -1, before the driver is finalized.
void release_programs(const ob_driver& table, c10::DeviceIndex device = -1) noexcept;

struct ProgramCounts {
  uint64_t built = 0;   // compiled from source
  uint64_t loaded = 0;  // from disk
};
OUTBOARD_API ProgramCounts program_counts() noexcept;

}  // namespace outboard
