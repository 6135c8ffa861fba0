// What there is to look at: the router's kernels of an operator, and traces of dispatch.
#include <pybind11/stl.h>

#include "dispatch/router.h"
#include "inspection/dispatch_trace.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace outboard {
namespace {

py::object kernels_of_overload(const std::string& name) {
  if (!reaches_router(name)) return py::none();
  py::list rows;
  for (const auto& kernel : kernels_of(name)) {
    py::object family = py::none();
    if (kernel->device_kernel != nullptr) family = py::str(kernel->device_kernel->family());
    rows.append(py::make_tuple(kSourceNames[static_cast<int>(kernel->source)],
                               kPlacementNames[static_cast<int>(kernel->placement)], family,
                               kernel->device, kernel->dtypes, kernel->separate_memory_only,
                               kernel->origin));
  }
  return std::move(rows);
}

py::tuple stop_trace() {
  uint64_t dropped = 0;
  std::vector<TracedCall> calls;
  {
    py::gil_scoped_release release;
    calls = stop_dispatch_trace(dropped);
  }
  py::list rows;
  for (const TracedCall& call : calls) {
    std::vector<std::string> keys;
    for (const c10::DispatchKey key : call.keys) keys.emplace_back(c10::toString(key));
    py::object dtype = py::none(), placement = py::none();
    if (call.dtype != at::ScalarType::Undefined) dtype = py::str(c10::toString(call.dtype));
    if (call.placement.has_value())
      placement = py::str(kPlacementNames[static_cast<int>(*call.placement)]);
    rows.append(py::make_tuple(call.name, call.is_operator, keys, dtype, call.device, placement,
                               call.parent, call.thread, call.nanoseconds, call.raised));
  }
  return py::make_tuple(rows, dropped);
}

}  // namespace

void bind_inspection(py::module_& m) {
  m.def("router_kernels", &kernels_of_overload);
  m.def("start_dispatch_trace", &start_dispatch_trace, py::call_guard<py::gil_scoped_release>());
  m.def("stop_dispatch_trace", &stop_trace);
}

}  // namespace outboard
