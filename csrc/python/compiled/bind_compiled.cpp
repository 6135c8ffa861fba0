// Kernels of compiled graphs: a program for all kernels of a graph, and calls of them from the code
// that torch.compile generates; and the memory that such code needs.
#include <ATen/Context.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/SmallVector.h>
#include <pybind11/stl.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings.h"
#include "runtime/driver/device.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/programs/launch.h"
#include "runtime/programs/program.h"
#include "runtime/streams/stream.h"
#include "tensors/empty.h"

namespace py = pybind11;

namespace outboard {
namespace {

// What kernels of compiled graphs find wrong on a device: a wrong index, or an assertion with this
// message. Leaked, as the words are.
KernelFault& graph_fault(c10::DeviceIndex device, std::optional<std::string> assertion = {}) {
  struct Faults {
    std::mutex mutex;
    std::map<std::pair<c10::DeviceIndex, std::optional<std::string>>, KernelFault*> all;
  };
  static auto* faults = new Faults;
  std::lock_guard<std::mutex> lock(faults->mutex);
  KernelFault*& fault = faults->all[{device, assertion}];
  if (fault != nullptr) return *fault;
  if (!assertion.has_value()) {
    fault = &KernelFault::make(device, KernelFault::Kind::kIndexError,
                               "index out of range in a compiled graph");
  } else {
    if (assertion->empty()) assertion = "an assertion of a compiled graph failed";
    fault = &KernelFault::make(device, KernelFault::Kind::kRuntimeError, *std::move(assertion));
  }
  return *fault;
}

struct GraphProgram {
  std::string source;
  std::string options;
};

// How work becomes work items.
enum class Cut {
  kChunks,  // an item takes a run of the work: processors
  kItems,   // an item for each piece of work
  kGroups,  // a work-group for each
};
constexpr const char* kCuts[] = {"chunks", "items", "groups"};

// A kernel of a graph's program, on whatever device its first tensor is. Any number of threads may
// call it.
class GraphKernel {
 public:
  // `parameters`: a letter for each, in order: t a tensor, i an int, l a long, f a float, d a
  // double, A the word for an assertion, whose message callers pass, F the word for wrong indices,
  // which callers do not pass. `local`: work items of a group.
  // `grain`: what a chunk costs at least. `limit`: most chunks.
  GraphKernel(std::shared_ptr<GraphProgram> program, std::string name, std::string parameters,
              const std::string& cut, uint64_t local, uint64_t grain, uint64_t limit)
      : program_(std::move(program)),
        name_(std::move(name)),
        parameters_(std::move(parameters)),
        cut_(parse_name<Cut>(cut, kCuts, "way to cut work")),
        local_(local),
        grain_(std::max<uint64_t>(grain, 1)),
        limit_(std::max<uint64_t>(limit, 1)) {}

  // Compiles, or loads from disk. Raises RuntimeError with the compiler's words.
  void build(c10::DeviceIndex device) { find(device); }

  // Arguments as `parameters` says, then pieces of work, and what all of it costs. Numbers may be
  // CPU tensors of one element.
  void call(const py::args& given) {
    LaunchArguments arguments;
    c10::DeviceIndex device = -1;
    size_t next = 0;
    c10::SmallVector<KernelFault*, 2> faults;
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
          // Of a tensor without elements nothing is read, but the parameter needs some memory.
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
          faults.push_back(&graph_fault(device));
          arguments.address(faults.back()->address());
          break;
        case 'A':
          faults.push_back(&graph_fault(device, py::handle(take()).cast<std::string>()));
          arguments.address(faults.back()->address());
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
    expect_faults(stream, faults);
  }

 private:
  static int64_t integer(PyObject* object) {
    if (THPVariable_Check(object)) return THPVariable_Unpack(object).item<int64_t>();
    return PyLong_AsLongLong(object);
  }

  static const void* placeholder(c10::DeviceIndex device) {
    return reinterpret_cast<const void*>(graph_fault(device).address());
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

  static constexpr size_t kDevices = 16;  // later ones look the kernel up for every call

  const std::shared_ptr<GraphProgram> program_;
  const std::string name_;
  const std::string parameters_;
  const Cut cut_;
  const uint64_t local_;
  const uint64_t grain_;
  const uint64_t limit_;
  std::array<std::atomic<Kernel*>, kDevices> kernels_{};
};

int64_t checked_integer(PyObject* given) {
  const int64_t value = PyLong_AsLongLong(given);
  if (value == -1 && PyErr_Occurred() != nullptr) throw python_error();
  return value;
}

c10::SmallVector<int64_t, 8> checked_integers(PyObject* given) {
  TORCH_CHECK_TYPE(PyTuple_Check(given), "sizes and strides are tuples of ints");
  c10::SmallVector<int64_t, 8> values;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(given); ++i) {
    values.push_back(checked_integer(PyTuple_GET_ITEM(given, i)));
  }
  return values;
}

// torch.empty_strided for code that is generated, as PyTorch has it for its own devices: names,
// defaults and modes of Python take longer than the memory does.
PyObject* empty_strided(PyObject* /*module*/, PyObject* const* given, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  TORCH_CHECK_TYPE(count == 4 && PyLong_Check(given[0]) && THPDtype_Check(given[3]),
                   "empty_strided takes a device's index, sizes, strides and a dtype");
  const auto device = static_cast<c10::DeviceIndex>(
      std::clamp<int64_t>(checked_integer(given[0]), -1, kMaxDevices));
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
}

}  // namespace outboard
