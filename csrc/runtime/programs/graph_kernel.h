// Kernels of graphs that torch.compile compiles: their launches.
#pragma once

#include <c10/util/SmallVector.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/driver/device.h"
#include "runtime/export.h"
#include "runtime/programs/device_assert.h"
#include "runtime/programs/launch.h"
#include "runtime/programs/program.h"

namespace outboard {

struct GraphProgram {
  std::string source;
};

// How work becomes work-items.
struct WorkDivision {
  enum class Cut {
    kChunks,  // a work-item per run of pieces: CPUs
    kItems,   // a work-item per piece
    kGroups,  // a work-group per piece
  };

  Grid grid(uint64_t pieces, uint64_t cost) const;

  Cut cut;
  uint64_t local;  // work-items per work-group
  uint64_t grain;  // minimum cost of a chunk
  uint64_t limit;  // maximum number of chunks
};

// The arguments of a launch. The first tensor determines the device, so it precedes asserts.
class OUTBOARD_API GraphArguments {
 public:
  // Memory of a tensor of `device`; null for a tensor without elements.
  void tensor(c10::DeviceIndex device, const void* data);
  template <class T>
  void value(const T& value) {
    launch_.value(value);
  }
  // The flag of an index out of range.
  void index_assert();
  // The flag of an assertion; empty: one without a message.
  void message_assert(const std::string& message);

 private:
  friend class GraphKernel;

  LaunchArguments launch_;
  c10::DeviceIndex device_ = -1;
  c10::SmallVector<DeviceAssert*, 2> asserts_;
};

// A kernel of a graph's program. Any number of threads may call it.
class OUTBOARD_API GraphKernel {
 public:
  GraphKernel(std::shared_ptr<const GraphProgram> program, std::string name, WorkDivision division)
      : program_(std::move(program)), name_(std::move(name)), division_(division) {}

  const std::string& name() const noexcept { return name_; }
  // Loads the program from disk or compiles it. Raises RuntimeError with the compiler's log.
  void build(c10::DeviceIndex device) { find(device); }
  // Enqueues the kernel on the current stream for this many pieces of work and their total cost.
  void launch(const GraphArguments& arguments, uint64_t pieces, uint64_t cost);

 private:
  Kernel& find(c10::DeviceIndex device);

  const std::shared_ptr<const GraphProgram> program_;
  const std::string name_;
  const WorkDivision division_;
  std::array<std::atomic<Kernel*>, kMaxDevices> kernels_{};
};

}  // namespace outboard
