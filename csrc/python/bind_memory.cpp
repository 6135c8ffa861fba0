// Memory: what Python needs beyond torch.accelerator. Sizes are in bytes, addresses are integers.
//
// Whatever may wait or call the driver runs without the interpreter lock.
#include "python/bindings.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/memory/pinned_allocator.h"
#include "runtime/memory/registered_memory.h"

namespace py = pybind11;

namespace outboard {
namespace {

using NoGil = py::call_guard<py::gil_scoped_release>;
using Pool = c10::MempoolId_t;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::SegmentInfo;

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
  bind_pools(m);
  bind_pinned(m);
}

}  // namespace outboard
