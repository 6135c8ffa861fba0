// Storages over shared memory, and metadata that travels with tensors.
#include <pybind11/stl.h>

#include <string>

#include "tensors/shared_storage.h"
#include "tensors/serialization.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace outboard {

void bind_storage(py::module_& m) {
  using NoGil = py::call_guard<py::gil_scoped_release>;
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

}  // namespace outboard
