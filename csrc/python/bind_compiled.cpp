// Compiled graphs: calls of their device kernels from the code that torch.compile generates, memory
// for that code, calls of graphs compiled for the CPU with tensors of a device, and captured
// graphs.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "cpu_kernels/compiled_code.h"
#include "python/bindings.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/programs/graph_kernel.h"
#include "tensors/captured_tensors.h"
#include "tensors/dense.h"

namespace py = pybind11;

namespace outboard {
namespace {

// Null if an object is not a tensor.
const at::Tensor* tensor_in(PyObject* object) {
  return THPVariable_Check(object) ? &THPVariable_Unpack(object) : nullptr;
}

// Empties a list, so that the caller's references to inputs end.
void clear(const py::list& list) {
  if (PyList_SetSlice(list.ptr(), 0, PyList_GET_SIZE(list.ptr()), nullptr) != 0) {
    throw py::error_already_set();
  }
}

// ---- Kernels of graphs ----

constexpr const char* kCuts[] = {"chunks", "items", "groups"};  // of WorkDivision::Cut

// A kernel with the kinds of its parameters, a letter each, in order: t a tensor, i an int, l a
// long, f a float, d a double, A the flag of an assertion, whose message the caller passes, F the
// flag of wrong indices, which the caller does not pass.
struct CallableGraphKernel {
  // Arguments as in `parameters`, then the number of pieces of work and their total cost. Numbers
  // may be CPU tensors of one element.
  void call(const py::args& given) {
    size_t next = 0;
    const size_t count = given.size();
    const auto take = [&]() -> PyObject* {
      if (next >= count) throw py::value_error("a kernel of a graph has too few arguments");
      return PyTuple_GET_ITEM(given.ptr(), static_cast<Py_ssize_t>(next++));
    };
    GraphArguments arguments;
    for (const char kind : parameters) {
      switch (kind) {
        case 't':
          add_tensor(arguments, take());
          break;
        case 'i':
          arguments.value(static_cast<int32_t>(integer(take())));
          break;
        case 'l':
          arguments.value(integer(take()));
          break;
        case 'f':
          arguments.value(static_cast<float>(real(take())));
          break;
        case 'd':
          arguments.value(real(take()));
          break;
        case 'F':
          arguments.index_assert();
          break;
        case 'A':
          arguments.message_assert(py::handle(take()).cast<std::string>());
          break;
        default:
          throw py::value_error("unknown kind of parameter");
      }
    }
    const auto pieces = static_cast<uint64_t>(std::max<int64_t>(integer(take()), 0));
    const auto cost = static_cast<uint64_t>(std::max<int64_t>(integer(take()), 0));
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (next != count) throw py::value_error("a kernel of a graph has too many arguments");
    py::gil_scoped_release no_gil;
    kernel.launch(arguments, pieces, cost);
  }

  void add_tensor(GraphArguments& arguments, PyObject* object) const {
    const at::Tensor* tensor = tensor_in(object);
    if (tensor == nullptr) throw py::type_error("a kernel of a graph needs a tensor");
    TORCH_CHECK(tensor->is_privateuseone(), "the kernel ", kernel.name(),
                " of a graph reads and writes "
                "memory of its device, and was called with a tensor on ",
                tensor->device(),
                "; this is a fault of the compiler, and torch.compile(..., "
                "backend=\"aot_eager\") does without kernels");
    arguments.tensor(tensor->device().index(), tensor->const_data_ptr());
  }

  static int64_t integer(PyObject* object) {
    const at::Tensor* tensor = tensor_in(object);
    return tensor != nullptr ? tensor->item<int64_t>() : PyLong_AsLongLong(object);
  }

  static double real(PyObject* object) {
    const at::Tensor* tensor = tensor_in(object);
    return tensor != nullptr ? tensor->item<double>() : PyFloat_AsDouble(object);
  }

  GraphKernel kernel;
  const std::string parameters;
};

std::unique_ptr<CallableGraphKernel> make_kernel(std::shared_ptr<GraphProgram> program,
                                                 std::string name, std::string parameters,
                                                 const std::string& cut, uint64_t local,
                                                 uint64_t grain, uint64_t limit) {
  const auto parsed = parse_name<WorkDivision::Cut>(cut, kCuts, "cut of work");
  return std::unique_ptr<CallableGraphKernel>(new CallableGraphKernel{
      {std::move(program), std::move(name), {parsed, local, grain, limit}}, std::move(parameters)});
}

void bind_graph_kernels(py::module_& m) {
  py::class_<GraphProgram, std::shared_ptr<GraphProgram>>(m, "GraphProgram")
      .def(py::init<std::string>(), py::arg("source"));
  py::class_<CallableGraphKernel>(m, "GraphKernel")
      .def(py::init(&make_kernel), py::arg("program"), py::arg("name"), py::arg("parameters"),
           py::arg("cut"), py::arg("local"), py::arg("grain"), py::arg("limit"))
      .def(
          "build",
          [](CallableGraphKernel& self, c10::DeviceIndex device) { self.kernel.build(device); },
          NoGil())
      .def("__call__", &CallableGraphKernel::call);
}

// ---- Memory for generated code ----

c10::SmallVector<int64_t, 8> checked_integers(PyObject* given) {
  TORCH_CHECK_TYPE(PyTuple_Check(given), "sizes and strides are tuples of ints");
  c10::SmallVector<int64_t, 8> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    values.push_back(THPUtils_unpackLong(PyTuple_GET_ITEM(given, i)));
  }
  return values;
}

// torch.empty_strided for generated code, as PyTorch has it for its own devices: parsing of
// arguments and Python's modes take longer than the allocation.
PyObject* empty_strided(PyObject* /*module*/, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 4 && PyLong_Check(given[0]) && THPDtype_Check(given[3]),
                   "empty_strided takes a device's index, sizes, strides and a dtype");
  const auto device = static_cast<c10::DeviceIndex>(
      std::clamp<int64_t>(THPUtils_unpackLong(given[0]), -1, kMaxDevices));
  const auto sizes = checked_integers(given[1]);
  const auto strides = checked_integers(given[2]);
  const at::ScalarType dtype = reinterpret_cast<THPDtype*>(given[3])->scalar_type;
  at::Tensor result;
  {
    py::gil_scoped_release no_gil;
    check_device_index(device);
    if (at::globalContext().deterministicAlgorithms()) {  // which may fill it
      result = at::empty_strided(sizes, strides, at::device(device_of(device)).dtype(dtype));
    } else {
      result = empty_strided_on(device, sizes, strides, dtype);
    }
  }
  return THPVariable_Wrap(std::move(result));
  END_HANDLE_TH_ERRORS
}

PyMethodDef empty_strided_definition = {
    "empty_strided", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&empty_strided)),
    METH_FASTCALL,
    "empty_strided(arg0: int, arg1: tuple[int, ...], arg2: tuple[int, ...], arg3: torch.dtype) "
    "-> torch.Tensor"};

// ---- Graphs compiled for the CPU ----

// A graph, by the indices of inputs that it writes and of results that stay CPU tensors.
struct HostGraph {
  std::unordered_set<Py_ssize_t> written;
  std::unordered_set<Py_ssize_t> cpu_results;
  c10::DeviceIndex device;

  // Empties `inputs`. Returns the results, on the device except for `cpu_results`.
  py::list call(const py::object& compiled, const py::list& inputs) const {
    std::optional<HostGraphCall> call;
    {
      py::gil_scoped_release release;  // it waits for the current stream
      call.emplace(device);
    }
    const Py_ssize_t count = PyList_GET_SIZE(inputs.ptr());
    py::list host(count);
    for (Py_ssize_t i = 0; i < count; ++i) {
      const py::handle input = PyList_GET_ITEM(inputs.ptr(), i);
      const at::Tensor* tensor = tensor_in(input.ptr());
      host[i] = tensor == nullptr ? py::reinterpret_borrow<py::object>(input)
                                  : py::cast(call->input(*tensor, written.contains(i)));
    }
    clear(inputs);
    const auto given = py::reinterpret_steal<py::object>(
        PySequence_Fast(compiled(std::move(host)).ptr(), "a compiled graph returns its results"));
    if (!given) throw py::error_already_set();
    py::list results(PySequence_Fast_GET_SIZE(given.ptr()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(results.ptr()); ++i) {
      PyObject* result = PySequence_Fast_GET_ITEM(given.ptr(), i);
      const at::Tensor* tensor = cpu_results.contains(i) ? nullptr : tensor_in(result);
      const bool owned = Py_REFCNT(result) == 1 && THPVariable_CheckExact(result);
      results[i] = tensor == nullptr ? py::reinterpret_borrow<py::object>(result)
                                     : py::cast(call->result(*tensor, owned));
    }
    call->finish();
    return results;
  }
};

void bind_host_graphs(py::module_& m) {
  py::class_<HostGraph>(m, "HostGraphCalls")
      .def(py::init([](c10::DeviceIndex device, const std::vector<Py_ssize_t>& written,
                       const std::vector<Py_ssize_t>& cpu_results) {
             return HostGraph{{written.begin(), written.end()},
                              {cpu_results.begin(), cpu_results.end()},
                              device};
           }),
           py::arg("device"), py::arg("written"), py::arg("cpu_results"))
      .def("__call__", &HostGraph::call);
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

// ---- Captured graphs ----

std::vector<const at::Tensor*> tensors_in(const py::list& inputs) {
  std::vector<const at::Tensor*> tensors;
  tensors.reserve(inputs.size());
  for (const py::handle input : inputs) tensors.push_back(tensor_in(input.ptr()));
  return tensors;
}

// A capture with the inputs and results that are not tensors.
struct CapturedValues : CapturedTensors {
  CapturedValues(c10::DeviceIndex device, py::object run_, std::string message)
      : CapturedTensors(device, std::move(message)), run(std::move(run_)) {}

  // Empties `inputs` and returns the results, or returns None, see CapturedTensors::replay.
  py::object call(const py::list& inputs, int64_t step) {
    for (const auto& [input, number] : numbers) {
      if (!py::object(inputs[input]).equal(number)) return py::none();
    }
    std::optional<std::vector<at::Tensor>> replayed;
    {
      const std::vector<const at::Tensor*> given = tensors_in(inputs);
      py::gil_scoped_release no_gil;
      replayed = replay(given, step, [this] {
        const py::gil_scoped_acquire gil;
        run();
      });
    }
    if (!replayed) return py::none();
    py::list results;
    auto constant = constants.begin();
    for (at::Tensor& tensor : *replayed) {
      results.append(tensor.defined() ? py::cast(std::move(tensor)) : *constant++);
    }
    clear(inputs);
    return results;
  }

  py::object run;                                      // replays the graph
  std::vector<std::pair<size_t, py::object>> numbers;  // inputs with one value per capture
  std::vector<py::object> constants;                   // results
};

void bind_captures(py::module_& m) {
  m.def(
      "captures_graphs", [] { return driver().graph_begin != nullptr; },
      "Whether the driver captures graphs.");
  py::class_<CapturedValues>(m, "CapturedTensors")
      .def(py::init<c10::DeviceIndex, py::object, std::string>())
      .def("add_number", [](CapturedValues& self, size_t input,
                            py::object number) { self.numbers.emplace_back(input, number); })
      .def("add_fixed", &CapturedValues::add_fixed)
      .def("add_moving", &CapturedValues::add_moving)
      .def("add_constant",
           [](CapturedValues& self, py::object constant) {
             self.add_constant();
             self.constants.push_back(std::move(constant));
           })
      .def("add_view", &CapturedValues::add_view)
      .def("add_result", &CapturedValues::add_result)
      .def("misplaced", [](const CapturedValues& self,
                           const py::list& inputs) { return self.misplaced(tensors_in(inputs)); })
      .def("replay", &CapturedValues::call);
}

}  // namespace

void bind_compiled(py::module_& m) {
  m.attr("empty_strided") =
      py::reinterpret_steal<py::object>(PyCFunction_New(&empty_strided_definition, nullptr));
  bind_graph_kernels(m);
  bind_host_graphs(m);
  bind_captures(m);
}

}  // namespace outboard
