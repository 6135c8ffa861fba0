// Memory: what Python needs beyond torch.accelerator. Sizes are in bytes, addresses are integers.
//
// Whatever may wait or call the driver runs without the interpreter lock.
#include <c10/core/CPUAllocator.h>

#include <chrono>
#include <optional>

#include "python/bindings.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/memory/cpu_kernel_memory.h"
#include "runtime/memory/pinned_allocator.h"
#include "runtime/memory/registered_memory.h"

namespace py = pybind11;

namespace outboard {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;
using Pool = c10::MempoolId_t;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

void* to_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

const char* block_state(const BlockInfo& block) {
  if (block.allocated) return "active_allocated";
  return block.active ? "active_pending_free" : "inactive";
}

}  // namespace

py::dict segment_to_dict(const SegmentInfo& segment) {
  py::list blocks;
  size_t address = segment.address;
  for (const BlockInfo& block : segment.blocks) {
    py::dict entry;
    entry["address"] = address;
    entry["size"] = block.size;
    entry["requested_size"] = block.requested_size;
    entry["state"] = block_state(block);
    blocks.append(entry);
    address += block.size;
  }
  py::dict result;
  result["device"] = static_cast<int>(segment.device);
  result["address"] = segment.address;
  result["total_size"] = segment.total_size;
  result["allocated_size"] = segment.allocated_size;
  result["active_size"] = segment.active_size;
  result["requested_size"] = segment.requested_size;
  result["stream"] = reinterpret_cast<uint64_t>(segment.stream);
  result["segment_type"] = segment.is_large ? "large" : "small";
  result["segment_pool_id"] = segment.owner_private_pool_id;
  result["is_expandable"] = segment.is_expandable;
  result["blocks"] = blocks;
  return result;
}

namespace {

py::list memory_snapshot(Pool pool) {
  std::vector<SegmentInfo> segments;
  {
    py::gil_scoped_release no_gil;
    segments = caching_allocator()->snapshot(pool);
  }
  py::list result;
  for (const SegmentInfo& segment : segments) result.append(segment_to_dict(segment));
  return result;
}

std::optional<std::pair<uint64_t, size_t>> base_allocation(uint64_t address) {
  size_t bytes = 0;
  void* base = caching_allocator()->base_allocation(to_pointer(address), &bytes);
  if (base == nullptr) return std::nullopt;
  return std::make_pair(reinterpret_cast<uint64_t>(base), bytes);
}

py::dict stat_to_dict(const c10::CachingAllocator::Stat& stat) {
  py::dict result;
  result["current"] = stat.current;
  result["peak"] = stat.peak;
  result["allocated"] = stat.allocated;
  result["freed"] = stat.freed;
  return result;
}

py::dict pinned_memory_stats() {
  at::HostStats stats;
  {
    py::gil_scoped_release no_gil;
    stats = pinned_allocator()->get_stats();
  }
  py::dict result;
  result["active_requests"] = stat_to_dict(stats.active_requests);
  result["active_bytes"] = stat_to_dict(stats.active_bytes);
  result["allocations"] = stat_to_dict(stats.allocations);
  result["allocated_bytes"] = stat_to_dict(stats.allocated_bytes);
  result["num_host_alloc"] = stats.num_host_alloc;
  result["num_host_free"] = stats.num_host_free;
  return result;
}

void bind_pools(py::module_& m) {
  m.def(
      "create_memory_pool", []() { return caching_allocator()->create_pool(); },
      "The id of a new private pool of memory.");
  m.def(
      "begin_allocate_to_pool",
      [](c10::DeviceIndex device, Pool pool) {
        caching_allocator()->begin_allocate_to_pool(device, pool);
      },
      NoGil(), "From now on this thread's memory on the device comes from the pool.");
  m.def(
      "end_allocate_to_pool",
      [](c10::DeviceIndex device, Pool pool) {
        caching_allocator()->end_allocate_to_pool(device, pool);
      },
      NoGil());
  m.def(
      "release_memory_pool",
      [](c10::DeviceIndex device, Pool pool) { caching_allocator()->release_pool(device, pool); },
      NoGil(), "Takes back one begin_allocate_to_pool: unheld pools are emptied with the cache.");
  m.def("empty_memory_pool", [](Pool pool) { caching_allocator()->emptyCache(pool); }, NoGil());
}

void bind_pinned(py::module_& m) {
  m.def("pinned_memory_stats", &pinned_memory_stats);
  m.def(
      "reset_peak_pinned_memory_stats", []() { pinned_allocator()->reset_peak_stats(); }, NoGil());
  m.def(
      "reset_accumulated_pinned_memory_stats",
      []() { pinned_allocator()->reset_accumulated_stats(); }, NoGil());
  m.def("register_host_memory", &register_host_memory, NoGil());
  m.def("unregister_host_memory", &unregister_host_memory, NoGil());
  m.def("is_pinned_address", [](uint64_t address) { return is_pinned(to_pointer(address)); });
}

// Makes CPU memory of this thread come from a device's cache between enter and exit, as it does
// while a host kernel runs.
class CpuKernelScope {
 public:
  explicit CpuKernelScope(c10::DeviceIndex device) : device_(device) {}
  void enter() { memory_.emplace(current_stream_state(device_)); }
  void exit() { memory_.reset(); }

 private:
  c10::DeviceIndex device_;
  std::optional<CpuKernelMemory> memory_;
};

// For tests and benchmarks.
void bind_probes(py::module_& m) {
  py::class_<CpuKernelScope>(m, "_CpuKernelScope")
      .def(py::init<c10::DeviceIndex>())
      .def("__enter__", &CpuKernelScope::enter)
      .def("__exit__", [](CpuKernelScope& self, const py::args&) { self.exit(); });
  m.def("_raw_allocate_on_cpu", [](size_t bytes) {
    return reinterpret_cast<uint64_t>(c10::GetCPUAllocator()->raw_allocate(bytes));
  });
  m.def("_raw_deallocate_on_cpu",
        [](uint64_t address) { c10::GetCPUAllocator()->raw_deallocate(to_pointer(address)); });
  m.def(
      "_clone_memory",
      [](uint64_t address, size_t bytes) {
        c10::DataPtr copy = caching_allocator()->clone(to_pointer(address), bytes);
        return reinterpret_cast<uint64_t>(copy.get());
      },
      NoGil(), "Copies device memory into a new block, gives that back, and returns its address.");
  m.def(
      "_benchmark_allocator",
      [](size_t bytes, int64_t iterations) {
        CachingAllocator& allocator = *caching_allocator();
        const auto start = std::chrono::steady_clock::now();
        for (int64_t i = 0; i < iterations; ++i) allocator.allocate(bytes);
        const std::chrono::duration<double, std::nano> elapsed =
            std::chrono::steady_clock::now() - start;
        return elapsed.count() / static_cast<double>(iterations);
      },
      NoGil(), "Nanoseconds to allocate and give back once, on the current device and stream.");
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("memory_snapshot", &memory_snapshot, py::arg("pool") = Pool(0, 0));
  m.def(
      "set_memory_fraction",
      [](double fraction, c10::DeviceIndex device) {
        caching_allocator()->set_memory_fraction(fraction, device);
      },
      NoGil());
  m.def(
      "memory_fraction",
      [](c10::DeviceIndex device) { return caching_allocator()->memory_fraction(device); },
      NoGil());
  m.def(
      "memory_info",
      [](c10::DeviceIndex device) { return caching_allocator()->getMemoryInfo(device); }, NoGil(),
      "Free and total bytes of a device.");
  m.def("base_allocation", &base_allocation, NoGil(),
        "Start and size of the driver's allocation around an address, or None.");
  m.def(
      "device_of_address",
      [](uint64_t address) {
        return static_cast<int>(caching_allocator()->device_of_pointer(to_pointer(address)));
      },
      NoGil(), "Index of the device whose cache holds an address, or -1.");
  bind_pools(m);
  bind_pinned(m);
  bind_probes(m);
}

}  // namespace outboard
