// Dispatch: policies, reports and placement of the router, its kernels, traces of dispatch, and
// what runs above it: autograd and autocast.
#include <pybind11/stl.h>
#include <torch/csrc/autograd/engine.h>

#include <chrono>
#include <thread>

#include "autograd/autograd.h"
#include "dispatch/fallback_policy.h"
#include "dispatch/placement.h"
#include "dispatch/report.h"
#include "dispatch/router.h"
#include "inspection/dispatch_trace.h"
#include "python/bindings.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"

namespace py = pybind11;

namespace outboard {
namespace {

constexpr const char* kPolicyNames[] = {"allow", "warn", "error"};
constexpr const char* kListingNames[] = {"none", "allowed", "denied"};

// Calls `visit` with the frames of the calling thread, innermost first, until it returns true.
template <class Visit>
void visit_frames(const Visit& visit) {
  const py::gil_scoped_acquire lock;
  py::object frame =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && !frame.is_none()) {
    const auto file = frame.attr("f_code").attr("co_filename").cast<std::string>();
    if (visit(frame, file)) return;
    frame = frame.attr("f_back");
  }
}

// "file:line" of the innermost frame that is neither PyTorch's nor a decomposition's; of the
// outermost frame if there is none.
std::string find_call_site() {
  std::string site;
  visit_frames([&](const py::object& frame, const std::string& file) {
    site = file + ":" + std::to_string(frame.attr("f_lineno").cast<int>());
    return file.find("/torch/") == std::string::npos &&
           file.find("/torch_outboard/ops/") == std::string::npos;
  });
  return site;
}

// Whether Python is in torch._tensor_str.
bool is_printing() {
  if (!Py_IsInitialized()) return false;
  bool printing = false;
  visit_frames([&](const py::object&, const std::string& file) {
    return printing = file.ends_with("/torch/_tensor_str.py");
  });
  return printing;
}

py::list report_to_list() {
  py::list all;
  for (const ReportRow& row : report_rows()) {
    all.append(py::make_tuple(
        row.op, dtype_or_none(row.dtype), kPlacementNames[static_cast<int>(row.placement)],
        row.call_site, row.calls, row.copied_bytes, row.nanoseconds, row.costs.waits,
        row.costs.waiting_nanoseconds, row.costs.programs, row.costs.compiling_nanoseconds));
  }
  return all;
}

py::list waits_to_list() {
  py::list all;
  for (const WaitRow& row : report_waits()) {
    all.append(py::make_tuple(row.cause, row.call_site, row.count, row.nanoseconds));
  }
  return all;
}

constexpr const char* kCallSitesNames[] = {"none", "waits", "all"};

void bind_fallback(py::module_& m) {
  set_find_call_site(&find_call_site);
  set_asks_for_printing(&is_printing);
  m.def("fallback_policy", [](const std::string& placement) {
    return kPolicyNames[static_cast<int>(
        fallback_policy(parse_name<Placement>(placement, kPlacementNames, "placement")))];
  });
  m.def("set_fallback_policy", [](const std::string& placement, const std::string& policy) {
    set_fallback_policy(parse_name<Placement>(placement, kPlacementNames, "placement"),
                        parse_name<Policy>(policy, kPolicyNames, "policy"));
  });
  m.def("set_fallback_listing", [](const std::string& name, const std::string& listing) {
    set_fallback_listing(name, parse_name<Listing>(listing, kListingNames, "list"));
  });
  m.def("fallback_listing", [](const std::string& listing) {
    return fallback_listing(parse_name<Listing>(listing, kListingNames, "list"));
  });
  m.def("start_report", [](const std::string& call_sites) {
    start_report(parse_name<CallSites>(call_sites, kCallSitesNames, "call sites"));
  });
  m.def("stop_report", &stop_report);
  m.def("clear_report", &clear_report);
  m.def("report_rows", &report_to_list);
  m.def("report_waits", &waits_to_list);
}

constexpr const char* kSettingNames[] = {"auto", "device", "host"};  // of PlacementSetting

void bind_placement(py::module_& m) {
  m.def("placement_setting", [](c10::DeviceIndex device) {
    check_device_index(device);
    return kSettingNames[static_cast<int>(placement_setting(device))];
  });
  m.def("set_placement_setting", [](c10::DeviceIndex device, const std::string& name) {
    const PlacementSetting setting = parse_name<PlacementSetting>(name, kSettingNames, "placement");
    py::gil_scoped_release no_gil;
    if (device >= 0) check_device_index(device);
    set_placement_setting(device, setting);
  });
  m.def(
      "note_compiled_graph",
      [](c10::DeviceIndex device) {
        check_device_index(device);
        note_compiled_graph(device);
      },
      NoGil());
  m.def("probe_compilers", &probe_compilers, NoGil());
  m.def(
      "runs_on_device",
      [](c10::DeviceIndex device) {
        check_device_index(device);
        ensure_device_kernels();
        return runs_on_device(device);
      },
      NoGil());
}

// ---- Inspection ----

// Properties of a RoutedKernel.
py::object dtypes_of(const RoutedKernel& kernel) {
  if (kernel.dtypes == kAllDtypes) return py::none();
  py::list dtypes;
  for (int i = 0; i < static_cast<int>(at::ScalarType::NumOptions); ++i) {
    if ((kernel.dtypes >> i) & 1) dtypes.append(py::cast(static_cast<at::ScalarType>(i)));
  }
  return dtypes;
}

py::object family_of(const RoutedKernel& kernel) {
  if (kernel.device_kernel == nullptr) return py::none();
  return py::str(kernel.device_kernel->family());
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
    py::object placement = py::none();
    if (call.placement.has_value())
      placement = py::str(kPlacementNames[static_cast<int>(*call.placement)]);
    rows.append(py::make_tuple(call.name, call.is_operator, keys, dtype_or_none(call.dtype),
                               call.device, placement, call.parent, call.thread, call.nanoseconds,
                               call.raised));
  }
  return py::make_tuple(rows, dropped);
}

// Best first; None if the overload does not reach the router.
std::optional<std::vector<std::shared_ptr<RoutedKernel>>> router_kernels(const std::string& name) {
  if (!reaches_router(name)) return std::nullopt;
  return kernels_of(name);
}

void bind_inspection(py::module_& m) {
  py::class_<RoutedKernel, std::shared_ptr<RoutedKernel>>(m, "RoutedKernel")
      .def_property_readonly(
          "source",
          [](const RoutedKernel& kernel) { return kSourceNames[static_cast<int>(kernel.source)]; })
      .def_property_readonly("placement",
                             [](const RoutedKernel& kernel) {
                               return kPlacementNames[static_cast<int>(kernel.placement)];
                             })
      .def_property_readonly("family", &family_of)
      .def_property_readonly("dtypes", &dtypes_of)
      .def_readonly("dtype_bits", &RoutedKernel::dtypes)
      .def_readonly("device", &RoutedKernel::device)
      .def_readonly("separate_memory_only", &RoutedKernel::separate_memory_only)
      .def_readonly("origin", &RoutedKernel::origin)
      .def_readonly("raw", &RoutedKernel::raw)
      .def_readonly("follows", &RoutedKernel::follows);
  m.def("router_kernels", &router_kernels);
  m.def("start_dispatch_trace", &start_dispatch_trace, NoGil());
  m.def("stop_dispatch_trace", &stop_trace);
}

// ---- Autograd and autocast

// Ends autograd's device threads while the interpreter runs. PyTorch ends them in static
// destructors, where they take the interpreter lock a last time: Python before 3.12 unwinds such a
// thread, which aborts the process.
void stop_autograd_threads() {
  if (in_bad_fork()) return;
  torch::autograd::Engine::get_default_engine().stop();
  // stop() returns when the threads are about to take the interpreter lock a last time. Nothing
  // tells when they have done so.
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

void bind_autograd(py::module_& m) {
  m.def("stop_autograd_threads", &stop_autograd_threads, NoGil());
  m.def("register_autocast", &register_autocast);
  m.def("set_autocast_policy", &set_autocast_policy);
}

}  // namespace

void bind_dispatch(py::module_& m) {
  bind_fallback(m);
  bind_placement(m);
  bind_inspection(m);
  bind_autograd(m);
}

}  // namespace outboard
