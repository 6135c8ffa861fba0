// The process group of the device, as a backend of torch.distributed.
#include <torch/csrc/utils/pybind.h>

#include "distributed/process_group.h"
#include "python/bindings.h"

namespace outboard {

namespace py = pybind11;

void bind_distributed(py::module_& m) {
  // PyTorch's own binding has the base class, unless it was built without.
  if (!py::hasattr(py::module_::import("torch._C"), "_distributed_c10d")) return;
  using distributed::ProcessGroup;
  py::class_<ProcessGroup, c10d::Backend, c10::intrusive_ptr<ProcessGroup>>(m, "ProcessGroup")
      .def(py::init([](const c10::intrusive_ptr<c10d::Backend>& engine, std::string name) {
             return c10::make_intrusive<ProcessGroup>(engine, std::move(name));
           }),
           py::arg("engine"), py::arg("name"));
}

}  // namespace outboard
