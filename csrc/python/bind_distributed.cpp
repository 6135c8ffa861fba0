// The process group of the device, as a backend of torch.distributed.
#include <pybind11/chrono.h>
#include <torch/csrc/utils/pybind.h>

#include "distributed/process_group.h"
#include "python/bindings.h"

namespace outboard {

namespace py = pybind11;

namespace {

// Options of a CPU backend, which cannot be copied by themselves.
struct SplitOptions {
  py::object cpu_backend;
};

}  // namespace

void bind_distributed(py::module_& m) {
  // PyTorch's own binding has the base class, unless it was built without.
  if (!py::hasattr(py::module_::import("torch._C"), "_distributed_c10d")) return;
  using distributed::ProcessGroup;
  // split_group() copies them, and gives the copy to every backend of the group.
  py::class_<SplitOptions>(m, "SplitOptions")
      .def("__deepcopy__", [](const SplitOptions& self, const py::dict&) {
        py::object copied = self.cpu_backend.attr("__class__")();
        for (const char* name : {"_devices", "_threads", "_timeout", "group_name"}) {
          copied.attr(name) = self.cpu_backend.attr(name);
        }
        return copied;
      });
  py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(m, "ProcessGroup")
      .def(py::init([](const c10::intrusive_ptr<c10d::Backend>& cpu_backend,
                       const c10::intrusive_ptr<c10d::Store>& store, std::string name,
                       std::chrono::milliseconds timeout) {
             return c10::make_intrusive<ProcessGroup>(cpu_backend, *store, std::move(name),
                                                      timeout);
           }),
           py::arg("cpu_backend"), py::arg("store"), py::arg("name"), py::arg("timeout"),
           py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("options",
                             [](const ProcessGroup& group) {
                               return SplitOptions{py::cast(group.cpu_backend()).attr("options")};
                             })
      .def("_taken", &ProcessGroup::taken, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("_reason", &ProcessGroup::reason);
}

}  // namespace outboard
