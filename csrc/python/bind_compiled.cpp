// Compiled graphs: calls of their device kernels from the code that torch.compile generates, memory
// for that code, and calls of graphs compiled for the CPU with tensors of a device.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/impl/COW.h>
#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/python_numbers.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cpu_kernels/call/cpu_call.h"
#include "cpu_kernels/compiled_code.h"
#include "python/bindings.h"
#include "random/graph_draws.h"
#include "runtime/driver/device.h"
#include "runtime/programs/device_assert.h"
#include "runtime/programs/launch.h"
#include "runtime/programs/program.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"
#include "tensors/host_view.h"

namespace py = pybind11;

namespace outboard {
namespace {

DeviceAssert& index_assert(c10::DeviceIndex device) {
  return DeviceAssert::interned(device, DeviceAssert::Kind::kIndexError,
                                "index out of range in a compiled graph");
}

DeviceAssert& message_assert(c10::DeviceIndex device, const std::string& message) {
  return DeviceAssert::interned(
      device, DeviceAssert::Kind::kRuntimeError,
      message.empty() ? "an assertion of a compiled graph failed" : std::string_view(message));
}

struct GraphProgram {
  std::string source;
  std::string options;
};

// How work becomes work-items.
enum class Cut {
  kChunks,  // a work-item per run of pieces: CPUs
  kItems,   // a work-item per piece
  kGroups,  // a work-group per piece
};
constexpr const char* kCuts[] = {"chunks", "items", "groups"};

// A kernel of a graph's program, on the device of its first tensor. Any number of threads may call
// it.
class GraphKernel {
 public:
  // `parameters`: a letter each, in order: t a tensor, i an int, l a long, f a float, d a double, A
  // the flag of an assertion, whose message the caller passes, F the flag of wrong indices, which
  // the caller does not pass. `local`: work-items per work-group. `grain`: minimum cost of a chunk.
  // `limit`: maximum number of chunks.
  GraphKernel(std::shared_ptr<GraphProgram> program, std::string name, std::string parameters,
              const std::string& cut, uint64_t local, uint64_t grain, uint64_t limit)
      : program_(std::move(program)),
        name_(std::move(name)),
        parameters_(std::move(parameters)),
        cut_(parse_name<Cut>(cut, kCuts, "cut of work")),
        local_(local),
        grain_(std::max<uint64_t>(grain, 1)),
        limit_(std::max<uint64_t>(limit, 1)) {}

  // Loads the program from disk or compiles it. Raises RuntimeError with the compiler's log.
  void build(c10::DeviceIndex device) { find(device); }

  // Arguments as in `parameters`, then the number of pieces of work and their total cost. Numbers
  // may be CPU tensors of one element.
  void call(const py::args& given) {
    LaunchArguments arguments;
    c10::DeviceIndex device = -1;
    size_t next = 0;
    c10::SmallVector<DeviceAssert*, 2> asserts;
    const size_t count = given.size();
    const auto take = [&]() -> PyObject* {
      if (next >= count) throw py::value_error("a kernel of a graph has too few arguments");
      return PyTuple_GET_ITEM(given.ptr(), static_cast<Py_ssize_t>(next++));
    };
    for (const char kind : parameters_) {
      switch (kind) {
        case 't': {
          PyObject* object = take();
          if (!THPVariable_Check(object))
            throw py::type_error("a kernel of a graph needs a tensor");
          const at::Tensor& tensor = THPVariable_Unpack(object);
          TORCH_CHECK(tensor.is_privateuseone(), "the kernel ", name_,
                      " of a graph reads and writes "
                      "memory of its device, and was called with a tensor on ",
                      tensor.device(),
                      "; this is a fault of the compiler, and torch.compile(..., "
                      "backend=\"aot_eager\") does without kernels");
          if (device < 0) device = tensor.device().index();
          const void* data = tensor.const_data_ptr();
          // A tensor without elements is not read, but the parameter needs some memory.
          if (data == nullptr) data = placeholder(tensor.device().index());
          arguments.address(data);
          break;
        }
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
          asserts.push_back(&index_assert(device));
          arguments.address(asserts.back()->address());
          break;
        case 'A':
          asserts.push_back(&message_assert(device, py::handle(take()).cast<std::string>()));
          arguments.address(asserts.back()->address());
          break;
        default:
          throw py::value_error("unknown kind of parameter");
      }
    }
    const auto work = static_cast<uint64_t>(std::max<int64_t>(integer(take()), 0));
    const auto cost = static_cast<uint64_t>(std::max<int64_t>(integer(take()), 0));
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (next != count) throw py::value_error("a kernel of a graph has too many arguments");
    if (work == 0) return;
    py::gil_scoped_release no_gil;
    StreamState& stream = current_stream_state(device);
    launch(stream, find(device), grid(work, cost), arguments);
    expect_asserts(stream, asserts);
  }

 private:
  static int64_t integer(PyObject* object) {
    if (THPVariable_Check(object)) return THPVariable_Unpack(object).item<int64_t>();
    return PyLong_AsLongLong(object);
  }

  static const void* placeholder(c10::DeviceIndex device) {
    return reinterpret_cast<const void*>(index_assert(device).address());
  }

  static double real(PyObject* object) {
    if (THPVariable_Check(object)) return THPVariable_Unpack(object).item<double>();
    return PyFloat_AsDouble(object);
  }

  Grid grid(uint64_t work, uint64_t cost) const {
    switch (cut_) {
      case Cut::kChunks: {
        const uint64_t chunks = std::min({work, (cost + grain_ - 1) / grain_, limit_});
        return Grid::linear(std::max<uint64_t>(chunks, 1), 1);
      }
      case Cut::kItems:
        return Grid::linear(work, local_);
      default:
        return Grid::linear(std::min<uint64_t>(work, 65535) * local_, local_);
    }
  }

  Kernel& find(c10::DeviceIndex device) {
    if (device < 0) throw py::value_error("a kernel of a graph needs a tensor of the device");
    const size_t slot = static_cast<size_t>(device);
    if (slot < kDevices) {
      if (Kernel* kernel = kernels_[slot].load(std::memory_order_acquire)) return *kernel;
    }
    Kernel& kernel = find_kernel(device, program_->source, name_, program_->options);
    if (slot < kDevices) kernels_[slot].store(&kernel, std::memory_order_release);
    return kernel;
  }

  static constexpr size_t kDevices = 16;  // other devices look the kernel up at every call

  const std::shared_ptr<GraphProgram> program_;
  const std::string name_;
  const std::string parameters_;
  const Cut cut_;
  const uint64_t local_;
  const uint64_t grain_;
  const uint64_t limit_;
  std::array<std::atomic<Kernel*>, kDevices> kernels_{};
};

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

// Calls of one graph.
class HostGraphCalls {
 public:
  // `written`: indices of inputs that the graph writes. `cpu_results`: indices of results that stay
  // CPU tensors.
  HostGraphCalls(c10::DeviceIndex device, const std::vector<Py_ssize_t>& written,
                 const std::vector<Py_ssize_t>& cpu_results)
      : device_(device),
        written_(written.begin(), written.end()),
        cpu_results_(cpu_results.begin(), cpu_results.end()) {}

  // Empties `inputs`. Returns the results, on the device except for `cpu_results`.
  py::list call(const py::object& compiled, const py::list& inputs) const;

 private:
  py::object host_input(const at::Tensor& tensor, Access access, CpuCall& call) const;
  py::object device_result(PyObject* result, CpuCall& call) const;

  const c10::DeviceIndex device_;
  const std::unordered_set<Py_ssize_t> written_;
  const std::unordered_set<Py_ssize_t> cpu_results_;
};

// Whether the memory of `tensor` can be viewed independently of other inputs. Writing to one input
// moves the copy-on-write storage of others; CpuCall handles that.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_privateuseone() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.is_quantized() && tensor.has_storage() &&
         !c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr());
}

// A call keeps mapped tensors until its end. A view keeps only the storage, so that a saved result
// of a forward pass is freed as soon as the graph releases it.
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
  const DeviceScope scope(device_);  // for random numbers of the device
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
      const bool writes = written_.contains(i);
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
    py::object object = cpu_results_.contains(i) ? py::reinterpret_borrow<py::object>(result)
                                                 : device_result(result, *call);
    PyList_SET_ITEM(ours.ptr(), i, object.release().ptr());
  }
  for (const auto& [device, view] : written) call->written(device, view);
  call->finish();
  return ours;
}

void bind_host_graphs(py::module_& m) {
  py::class_<HostGraphCalls>(m, "HostGraphCalls")
      .def(py::init<c10::DeviceIndex, const std::vector<Py_ssize_t>&,
                    const std::vector<Py_ssize_t>&>(),
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

}  // namespace

void bind_compiled(py::module_& m) {
  m.attr("empty_strided") =
      py::reinterpret_steal<py::object>(PyCFunction_New(&empty_strided_definition, nullptr));
  py::class_<GraphProgram, std::shared_ptr<GraphProgram>>(m, "GraphProgram")
      .def(py::init([](std::string source, std::string options) {
             return std::make_shared<GraphProgram>(
                 GraphProgram{std::move(source), std::move(options)});
           }),
           py::arg("source"), py::arg("options"));
  py::class_<GraphKernel>(m, "GraphKernel")
      .def(py::init<std::shared_ptr<GraphProgram>, std::string, std::string, const std::string&,
                    uint64_t, uint64_t, uint64_t>(),
           py::arg("program"), py::arg("name"), py::arg("parameters"), py::arg("cut"),
           py::arg("local"), py::arg("grain"), py::arg("limit"))
      .def("build", &GraphKernel::build, py::call_guard<py::gil_scoped_release>())
      .def("__call__", &GraphKernel::call);
  bind_host_graphs(m);
}

}  // namespace outboard
