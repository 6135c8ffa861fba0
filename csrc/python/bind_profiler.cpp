// The history of memory as PyTorch's viewer reads it. Sizes are in bytes, addresses are integers.
#include <torch/csrc/profiler/combined_traceback.h>

#include <unordered_map>

#include "python/bindings.h"
#include "runtime/memory/memory_history.h"
#include "runtime/memory/caching/caching_allocator.h"

namespace py = pybind11;

namespace outboard {
namespace {

using c10::CachingDeviceAllocator::BlockInfo;
using c10::CachingDeviceAllocator::RecordContext;
using c10::CachingDeviceAllocator::SegmentInfo;
using torch::CapturedTraceback;

constexpr const char* kContextNames[] = {"", "state", "alloc", "all"};

// Whether the calling thread may wait for the interpreter's lock: Python knows it, and does not
// end.
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

// Turns stacks into lists of dictionaries, each stack once.
class Stacks {
 public:
  void add(const MemoryContext& context) {
    auto* traceback = dynamic_cast<CapturedTraceback*>(context.get());
    if (traceback == nullptr || !places_.try_emplace(traceback, tracebacks_.size()).second) return;
    tracebacks_.push_back(traceback);
  }

  // After all have been added.
  void symbolize() {
    const torch::SymbolizedTracebacks symbolized = torch::symbolize(tracebacks_);
    std::vector<py::dict> frames;
    for (const auto& frame : symbolized.all_frames) {
      py::dict made;
      made["filename"] = frame.filename;
      made["name"] = frame.funcname;
      made["line"] = frame.lineno;
      frames.push_back(made);
    }
    for (const auto& traceback : symbolized.tracebacks) {
      py::list stack;
      for (const uint64_t frame : traceback) stack.append(frames[frame]);
      stacks_.push_back(stack);
    }
  }

  py::list of(const MemoryContext& context) const {
    const auto found = places_.find(dynamic_cast<CapturedTraceback*>(context.get()));
    return found == places_.end() ? py::list() : stacks_[found->second];
  }

 private:
  std::unordered_map<CapturedTraceback*, size_t> places_;
  std::vector<CapturedTraceback*> tracebacks_;
  std::vector<py::list> stacks_;
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

// The segments with the frames of their blocks, and for each device the list of its events.
py::dict memory_history(int devices) {
  std::vector<SegmentInfo> segments;
  std::vector<MemoryEvent> events;
  {
    py::gil_scoped_release no_gil;
    // Without the event of this snapshot.
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

void start(bool events, const std::string& context, bool cpp, size_t most_events, bool clear,
           const std::vector<std::string>& skipped) {
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

}  // namespace

void bind_profiler(py::module_& m) {
  m.def("start_memory_history", &start, py::arg("events"), py::arg("context"), py::arg("cpp"),
        py::arg("most_events"), py::arg("clear"), py::arg("skipped"));
  m.def("stop_memory_history", &stop_memory_history);
  m.def("memory_history", &memory_history, py::arg("devices"));
  m.def("set_memory_metadata", &set_memory_metadata);
  m.def("memory_metadata", &memory_metadata);
}

}  // namespace outboard
