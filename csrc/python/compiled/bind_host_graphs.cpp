// Calls of graphs that were compiled for the CPU, with tensors of a device; functions that their
// code calls, and packages.
#include <ATen/core/Tensor.h>
#include <c10/core/impl/COW.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu_kernels/call/change_device.h"
#include "cpu_kernels/call/cpu_call.h"
#include "cpu_kernels/compiled/calls_on_device.h"
#include "cpu_kernels/compiled/packaged_models.h"
#include "python/bindings.h"
#include "random/graphs/graph_draws.h"
#include "runtime/driver/device.h"
#include "tensors/host_view.h"

namespace py = pybind11;

namespace outboard {
namespace {

std::vector<bool> flags_of(const std::vector<size_t>& indices) {
  std::vector<bool> flags;
  for (const size_t index : indices) {
    if (index >= flags.size()) flags.resize(index + 1);
    flags[index] = true;
  }
  return flags;
}

bool is_set(const std::vector<bool>& flags, size_t index) {
  return index < flags.size() && flags[index];
}

// The calls of one graph.
class HostGraphCalls {
 public:
  // `written`: indices of the inputs whose content changes. `cpu_results`: indices of the results
  // that are CPU tensors for the caller, too.
  HostGraphCalls(c10::DeviceIndex device, const std::vector<size_t>& written,
                 const std::vector<size_t>& cpu_results)
      : device_(device), written_(flags_of(written)), cpu_results_(flags_of(cpu_results)) {}

  // Empties `inputs`. Returns the results, on the device but for `cpu_results`.
  py::list call(const py::object& compiled, const py::list& inputs) const;

 private:
  py::object host_input(const at::Tensor& tensor, Access access, CpuCall& call) const;
  py::object device_result(PyObject* result, CpuCall& call) const;

  const c10::DeviceIndex device_;
  const std::vector<bool> written_;
  const std::vector<bool> cpu_results_;
};

// Whether the memory of `tensor` can be viewed apart from other inputs. A copy-on-write storage
// moves when one of the inputs over it is written, which the call sees to.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_privateuseone() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.is_quantized() && tensor.has_storage() &&
         !c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr());
}

// A call keeps the tensors that it maps to its end. A view keeps only the storage, so that a saved
// result of a forward pass is freed as soon as the graph lets it go.
py::object HostGraphCalls::host_input(const at::Tensor& tensor, Access access,
                                      CpuCall& call) const {
  if (call.placement() != Placement::kHost || !is_plain(tensor)) {
    return py::cast(call.map(tensor, access));
  }
  return py::cast(host_tensor(tensor, access));
}

py::object HostGraphCalls::device_result(PyObject* result, CpuCall& call) const {
  if (!THPVariable_Check(result)) return py::reinterpret_borrow<py::object>(result);
  const at::Tensor& host = THPVariable_Unpack(result);
  if (call.placement() == Placement::kHost && Py_REFCNT(result) == 1 &&
      THPVariable_CheckExact(result) && turn_into_device(host, device_)) {
    return py::reinterpret_borrow<py::object>(result);
  }
  return py::cast(call.result(host));
}

py::list HostGraphCalls::call(const py::object& compiled, const py::list& inputs) const {
  const DeviceScope scope(device_);  // for operators that draw on the device
  std::optional<CpuCall> call;
  {
    py::gil_scoped_release release;  // it waits for the current stream
    call.emplace(device_);
  }
  const auto count = static_cast<Py_ssize_t>(inputs.size());
  py::list host(count);
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // device and host
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* input = PyList_GET_ITEM(inputs.ptr(), i);
    py::object given = py::reinterpret_borrow<py::object>(input);
    if (THPVariable_Check(input)) {
      const at::Tensor& tensor = THPVariable_Unpack(input);
      const bool writes = is_set(written_, i);
      given = host_input(tensor, writes ? Access::kWrite : Access::kRead, *call);
      if (writes) written.emplace_back(tensor, THPVariable_Unpack(given.ptr()));
    }
    PyList_SET_ITEM(host.ptr(), i, given.release().ptr());
  }
  if (PyList_SetSlice(inputs.ptr(), 0, count, nullptr) != 0) throw py::error_already_set();
  const auto given = py::reinterpret_steal<py::object>(
      PySequence_Fast(compiled(std::move(host)).ptr(), "a compiled graph returns its results"));
  if (!given) throw py::error_already_set();
  const Py_ssize_t results = PySequence_Fast_GET_SIZE(given.ptr());
  py::list ours(results);
  for (Py_ssize_t i = 0; i < results; ++i) {
    PyObject* result = PySequence_Fast_GET_ITEM(given.ptr(), i);
    py::object object = is_set(cpu_results_, i) ? py::reinterpret_borrow<py::object>(result)
                                                : device_result(result, *call);
    PyList_SET_ITEM(ours.ptr(), i, object.release().ptr());
  }
  for (const auto& [device, view] : written) call->written(device, view);
  call->finish();
  return ours;
}

}  // namespace

void bind_host_graphs(py::module_& m) {
  py::class_<HostGraphCalls>(m, "HostGraphCalls")
      .def(py::init<c10::DeviceIndex, const std::vector<size_t>&, const std::vector<size_t>&>(),
           py::arg("device"), py::arg("written"), py::arg("cpu_results"))
      .def("__call__", &HostGraphCalls::call);
  random::register_graph_draws();
  m.def(
      "define_call_on_device",
      [](const std::string& name, const std::string& overload) {
        return define_call_on_device(
            c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str()));
      },
      py::arg("name"), py::arg("overload") = "",
      "Defines an operator of CPU tensors that calls another one on the device; its name.");
  m.def("register_packaged_models", &register_packaged_models);
}

}  // namespace outboard
