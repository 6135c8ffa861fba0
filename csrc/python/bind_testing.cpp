// `torch_outboard._C.testing`: functions for tests and benchmarks alone. Addresses are integers,
// sizes are in bytes.
#include <c10/core/CPUAllocator.h>
#include <pybind11/stl.h>

#include <chrono>
#include <tuple>
#include <utility>
#include <variant>

#include "device_kernels/expressions/expression.h"
#include "dispatch/fallback_policy.h"
#include "python/bindings.h"
#include "runtime/driver/device.h"
#include "runtime/global.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/pinned_memory.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/event.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"

namespace py = pybind11;

namespace outboard {
namespace {

void* to_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// ---- Memory

double benchmark_allocator(size_t bytes, int64_t iterations) {
  CachingAllocator& allocator = *caching_allocator();
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < iterations; ++i) allocator.allocate(bytes);
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(iterations);
}

// A context manager: CPU memory of this thread comes from a device's cache, as in a CPU kernel.
class CpuKernelScope {
 public:
  explicit CpuKernelScope(c10::DeviceIndex device) : device_(device) {}
  void enter() { memory_.emplace(current_stream_state(device_)); }
  void exit() { memory_.reset(); }

 private:
  c10::DeviceIndex device_;
  std::optional<CpuKernelMemory> memory_;
};

void bind_memory_tests(py::module_& m) {
  py::class_<CpuKernelScope>(m, "CpuKernelScope")
      .def(py::init<c10::DeviceIndex>())
      .def("__enter__", &CpuKernelScope::enter)
      .def("__exit__", [](CpuKernelScope& self, const py::args&) { self.exit(); });
  m.def("raw_allocate_on_cpu", [](size_t bytes) {
    return reinterpret_cast<uint64_t>(c10::GetCPUAllocator()->raw_allocate(bytes));
  });
  m.def("raw_deallocate_on_cpu",
        [](uint64_t address) { c10::GetCPUAllocator()->raw_deallocate(to_pointer(address)); });
  m.def(
      "device_of_address",
      [](uint64_t address) {
        return static_cast<int>(caching_allocator()->device_of_pointer(to_pointer(address)));
      },
      NoGil(), "Index of the device whose cache holds an address, or -1.");
  m.def(
      "empty_memory_pool", [](c10::MempoolId_t pool) { caching_allocator()->emptyCache(pool); },
      NoGil());
  m.def("is_pinned_address", [](uint64_t address) { return is_pinned(to_pointer(address)); });
  m.def("benchmark_allocator", &benchmark_allocator, NoGil(),
        "Nanoseconds to allocate and free once, on the current device and stream.");
  m.def("span_elements",
        [](const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
          return span_elements(sizes, strides);
        });
}

// ---- Streams and times

Recording& timed_launches() { return global<Recording>(); }

// Name, device, stream id, start and end of a launch; times are nanoseconds of time.monotonic_ns().
using LaunchTime = std::tuple<std::string, int, c10::StreamId, uint64_t, uint64_t>;

std::vector<LaunchTime> take_launch_times() {
  std::vector<LaunchTime> times;
  for (Activity& activity : timed_launches().take()) {
    if (activity.kind != ActivityKind::kKernel || !activity.has_times()) continue;
    times.emplace_back(std::move(activity.name), activity.device, activity.stream, activity.begin,
                       activity.end);
  }
  return times;
}

void bind_stream_tests(py::module_& m) {
  m.def(
      "stream_queue",
      [](c10::DeviceIndex device, c10::StreamId id) {
        const c10::Stream stream(c10::Stream::UNSAFE, device_of(device), id);
        return reinterpret_cast<uint64_t>(stream_state(stream).queue);
      },
      NoGil(), "The driver's queue behind a stream.");
  m.def(
      "event_time",
      []() {
        Event event(/*timing=*/true);
        event.record(current_stream(current_device()));
        event.synchronize();
        return event.time();
      },
      NoGil(), "The time of an event recorded on the current stream.");
  m.def(
      "time_launches", [](bool on) { on ? timed_launches().start() : timed_launches().stop(); },
      NoGil(), "Starts or stops timing launches of kernels; those of graphs are not timed.");
  m.def("take_launch_times", &take_launch_times, NoGil(),
        "Waits for the launches that were timed since the last call; their times.");
}

// ---- Expressions of operator definitions

using Value = std::variant<std::monostate, bool, int64_t, double, std::string, at::Tensor,
                           std::vector<int64_t>, std::vector<double>>;

py::object python_number(const ExpressionNumber& number) {
  if (number.is_real()) return py::cast(number.as_real());
  return py::cast(number.as_integer());
}

// The value of a node, for given values of the names in its graph.
py::object evaluate_expression(const py::list& nodes, int64_t node,
                               const std::map<std::string, Value>& given) {
  const auto graph = expression_graph(nodes);
  std::list<c10::IValue> arguments;  // outlive the values made of them
  Evaluation evaluation(*graph);
  for (int i = 0; i < graph->size(); ++i) {
    const std::string* name = graph->name(i);
    if (name == nullptr) continue;
    const auto found = given.find(*name);
    if (found == given.end()) throw py::value_error("'" + *name + "' has no value");
    arguments.push_back(std::visit(
        [](const auto& known) {
          if constexpr (std::is_same_v<decltype(known), const std::monostate&>) {
            return c10::IValue();
          } else {
            return c10::IValue(known);
          }
        },
        found->second));
    evaluation.set(i, arguments.back());
  }
  const ExpressionValue& result = evaluation.value(graph->checked(node));
  if (result.kind == ExpressionValue::Kind::kNumber) return python_number(result.number);
  py::list list;
  for (const ExpressionNumber& element : result.as_list()) list.append(python_number(element));
  return list;
}

}  // namespace

void bind_testing(py::module_& parent) {
  py::module_ m = parent.def_submodule("testing", "For tests and benchmarks alone.");
  bind_memory_tests(m);
  bind_stream_tests(m);
  m.def("evaluate_expression", &evaluate_expression, py::arg("nodes"), py::arg("node"),
        py::arg("values"));
  m.def("reset_fallback_warnings", &reset_fallback_warnings);
}

}  // namespace outboard
