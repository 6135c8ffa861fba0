// Policies, lists and reports of the router, for torch_outboard.fallback.
#include <pybind11/stl.h>

#include "dispatch/fallback_policy.h"
#include "dispatch/report.h"
#include "dispatch/router.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace outboard {
namespace {

constexpr const char* kPolicyNames[] = {"allow", "warn", "error"};
constexpr const char* kListingNames[] = {"none", "allowed", "denied"};

// "file:line" of the innermost frame of a program.
std::string find_call_site() {
  py::gil_scoped_acquire lock;
  std::string site;
  py::object frame =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && !frame.is_none()) {
    const auto file = frame.attr("f_code").attr("co_filename").cast<std::string>();
    site = file + ":" + std::to_string(frame.attr("f_lineno").cast<int>());
    // Neither PyTorch's code nor the decompositions.
    if (file.find("/torch/") == std::string::npos &&
        file.find("/torch_outboard/ops/") == std::string::npos) {
      break;
    }
    frame = frame.attr("f_back");
  }
  return site;
}

// Whether Python is below torch._tensor_str.
bool is_printing() {
  if (!Py_IsInitialized()) return false;
  py::gil_scoped_acquire lock;
  py::object frame =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && !frame.is_none()) {
    const auto file = frame.attr("f_code").attr("co_filename").cast<std::string>();
    if (file.ends_with("/torch/_tensor_str.py")) return true;
    frame = frame.attr("f_back");
  }
  return false;
}

py::list rows() {
  py::list all;
  for (const ReportRow& row : report_rows()) {
    py::object dtype = py::none();
    if (row.dtype != at::ScalarType::Undefined) {
      dtype = py::str(c10::toString(row.dtype));
    }
    all.append(py::make_tuple(row.op, dtype, kPlacementNames[static_cast<int>(row.placement)],
                              row.call_site, row.calls, row.copied_bytes, row.nanoseconds));
  }
  return all;
}

}  // namespace

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
  m.def("start_report", &start_report, py::arg("call_sites") = false);
  m.def("stop_report", &stop_report);
  m.def("clear_report", &clear_report);
  m.def("report_rows", &rows);
}

}  // namespace outboard
