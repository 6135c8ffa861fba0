// Memory: allocator, pools, pinned memory, history, and storages over shared memory. Sizes are in
// bytes, addresses are integers.
#include <pybind11/stl.h>
#include <torch/csrc/profiler/combined_traceback.h>

#include <unordered_map>
#include <utility>

#include "python/bindings.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/caching/device_cache.h"
#include "runtime/memory/memory_history.h"
#include "runtime/memory/pinned_memory.h"
#include "tensors/serialization.h"
#include "tensors/shared_storage.h"

namespace py = pybind11;

// Its header includes one of another library, which PyTorch does not install.
namespace torch {
TORCH_API std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& tracebacks);
}  // namespace torch

namespace outboard {
namespace {

using Pool = c10::MempoolId_t;
using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::SegmentInfo;
using torch::CapturedTraceback;

const char* block_state(const BlockInfo& block) {
  if (block.allocated) return "active_allocated";
  return block.active ? "active_pending_free" : "inactive";
}

// A segment with the keys of torch.cuda.memory_snapshot.
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

// A member function of a device's cache as a function of the device and its arguments.
template <class Result, class... Arguments>
auto on_cache(Result (DeviceCache::*member)(Arguments...)) {
  return [member](c10::DeviceIndex device, Arguments... arguments) -> Result {
    return (caching_allocator()->cache(device).*member)(std::move(arguments)...);
  };
}

void bind_pools(py::module_& m) {
  m.def(
      "create_memory_pool", [] { return caching_allocator()->create_pool(); },
      "The id of a new private pool of memory.");
  m.def("begin_allocate_to_pool", on_cache(&DeviceCache::begin_allocate_to_pool), NoGil(),
        "Allocations of this thread on the device come from the pool from now on.");
  m.def("end_allocate_to_pool", on_cache(&DeviceCache::end_allocate_to_pool), NoGil());
  m.def("release_memory_pool", on_cache(&DeviceCache::release_pool), NoGil(),
        "Undoes one begin_allocate_to_pool: the cache frees pools without users.");
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

// ---- History, as PyTorch's memory viewer reads it ----

constexpr const char* kContextNames[] = {"", "state", "alloc", "all"};

// Whether the calling thread may wait for the interpreter lock: Python knows the thread and is not
// ending.
bool thread_of_python() {
#if PY_VERSION_HEX >= 0x030D0000
  const bool ending = Py_IsFinalizing();
#else
  const bool ending = _Py_IsFinalizing();
#endif
  return !ending && PyGILState_GetThisThreadState() != nullptr;
}

template <bool with_cpp>
MemoryContext gather_stack() {
  return CapturedTraceback::gather(thread_of_python(), /*script=*/true, with_cpp);
}

// Converts stacks to lists of dictionaries, each stack once.
class Stacks {
 public:
  void add(const MemoryContext& context) {
    auto* traceback = dynamic_cast<CapturedTraceback*>(context.get());
    if (traceback == nullptr || !indices_.try_emplace(traceback, tracebacks_.size()).second) return;
    tracebacks_.push_back(traceback);
  }

  // Call after the last add().
  void symbolize() { stacks_ = torch::py_symbolize(tracebacks_); }

  py::object of(const MemoryContext& context) const {
    const auto found = indices_.find(dynamic_cast<CapturedTraceback*>(context.get()));
    return found == indices_.end() ? py::list() : stacks_[found->second];
  }

 private:
  std::unordered_map<CapturedTraceback*, size_t> indices_;
  std::vector<CapturedTraceback*> tracebacks_;
  std::vector<py::object> stacks_;
};

py::dict event_to_dict(const MemoryEvent& event, const Stacks& stacks) {
  py::dict result;
  result["action"] = kMemoryActionNames[static_cast<size_t>(event.action)];
  const bool failed = event.action == MemoryAction::kOutOfMemory;
  result[failed ? "device_free" : "addr"] = event.address;
  result["size"] = event.size;
  result["stream"] = reinterpret_cast<uint64_t>(event.queue);
  result["pool_id"] = event.pool;
  result["time_us"] = event.time_us;
  result["frames"] = stacks.of(event.context);
  if (!event.metadata.empty()) result["user_metadata"] = event.metadata;
  return result;
}

// Segments with the frames of their blocks, and a list of events per device.
py::dict memory_history(int devices) {
  std::vector<SegmentInfo> segments;
  std::vector<MemoryEvent> events;
  {
    py::gil_scoped_release no_gil;
    // Before the snapshot adds its own event.
    events = memory_events();
    segments = caching_allocator()->snapshot();
  }
  Stacks stacks;
  for (const SegmentInfo& segment : segments) {
    stacks.add(segment.context_when_allocated);
    for (const BlockInfo& block : segment.blocks) stacks.add(block.context_when_allocated);
  }
  for (const MemoryEvent& event : events) stacks.add(event.context);
  stacks.symbolize();

  py::list all_segments;
  for (const SegmentInfo& segment : segments) {
    py::dict entry = segment_to_dict(segment);
    entry["frames"] = stacks.of(segment.context_when_allocated);
    const py::list blocks = entry["blocks"];
    for (size_t i = 0; i < segment.blocks.size(); ++i) {
      blocks[i]["frames"] = stacks.of(segment.blocks[i].context_when_allocated);
    }
    all_segments.append(entry);
  }
  std::vector<py::list> traces(devices);
  for (const MemoryEvent& event : events) {
    if (event.device < devices) traces[event.device].append(event_to_dict(event, stacks));
  }
  py::dict result;
  result["segments"] = all_segments;
  result["device_traces"] = traces;
  return result;
}

void start_history(bool events, const std::string& context, bool cpp, size_t most_events,
                   bool clear, const std::vector<std::string>& skipped) {
  MemoryHistorySettings settings;
  settings.events = events;
  settings.contexts = parse_name<RecordContext>(context, kContextNames, "context");
  settings.gather = cpp ? &gather_stack<true> : &gather_stack<false>;
  settings.most_events = most_events;
  for (const std::string& action : skipped) {
    settings.skipped[parse_name<size_t>(action, kMemoryActionNames, "action")] = true;
  }
  start_memory_history(settings, clear);
}

void bind_history(py::module_& m) {
  m.def("start_memory_history", &start_history, py::arg("events"), py::arg("context"),
        py::arg("cpp"), py::arg("most_events"), py::arg("clear"), py::arg("skipped"));
  m.def("stop_memory_history", &stop_memory_history);
  m.def("memory_history", &memory_history, py::arg("devices"));
  m.def("set_memory_metadata", &set_memory_metadata);
  m.def("memory_metadata", &memory_metadata);
}

// ---- Storages over shared memory, and strings that users attach to tensors

void bind_storages(py::module_& m) {
  m.def("adopt_cpu_storage", &adopt_cpu_storage, NoGil());
  m.def("adopted_cpu_storage", &adopted_cpu_storage);
  m.def("move_to_cpu_storage", &move_to_cpu_storage, NoGil());
  m.def("host_storage", &exported_host_storage, NoGil());
  m.def("shares_with_processes", &shares_with_processes, NoGil());
  m.def("export_storage", [](const c10::Storage& storage) {
    ExportedMemory exported;
    {
      py::gil_scoped_release no_gil;
      exported = export_storage(storage);
    }
    return std::make_pair(exported.descriptor, py::bytes(exported.data));
  });
  m.def("import_storage",
        [](c10::DeviceIndex device, int descriptor, uint64_t size, const py::bytes& data) {
          const std::string text = data;
          py::gil_scoped_release no_gil;
          return import_storage(device, descriptor, size, text);
        });

  m.def("set_tensor_metadata", &set_tensor_metadata);
  m.def("tensor_metadata", &tensor_metadata);
  m.def("take_metadata_slot", &take_metadata_slot);
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("memory_snapshot", &memory_snapshot, py::arg("pool") = Pool(0, 0));
  m.def(
      "set_memory_fraction",
      [](double fraction, c10::DeviceIndex device) {
        caching_allocator()->cache(device).set_fraction(fraction);
      },
      NoGil());
  m.def("memory_fraction", on_cache(&DeviceCache::fraction), NoGil());
  bind_pools(m);
  bind_pinned(m);
  bind_history(m);
  bind_storages(m);
}

}  // namespace outboard
