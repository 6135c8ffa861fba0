// Captured graphs of torch.compile: inputs are copied in before a replay, results are handed out
// after it.
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <string>
#include <utility>
#include <vector>

#include "python/bindings.h"
#include "runtime/driver/driver_table.h"
#include "runtime/streams/stream.h"
#include "tensors/dense.h"
#include "tensors/host_view.h"

namespace py = pybind11;

namespace outboard {
namespace {

py::handle item(const py::list& inputs, size_t index) {
  PyObject* object = PyList_GetItem(inputs.ptr(), static_cast<Py_ssize_t>(index));  // borrowed
  if (object == nullptr) throw py::error_already_set();
  return object;
}

const at::Tensor& tensor_at(const py::list& inputs, size_t index) {
  PyObject* object = item(inputs, index).ptr();
  if (!THPVariable_Check(object)) throw py::type_error("a captured graph was given no tensor");
  return THPVariable_Unpack(object);
}

// A flat view from a tensor's first to its last element, gaps included.
at::Tensor extent_of(const at::Tensor& tensor) {
  return tensor.as_strided({span_elements(tensor)}, {1});
}

// A storage over the memory of another one, which it keeps alive.
at::Storage storage_over(const at::Storage& owner) {
  return at::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), owner.nbytes(), pointer_into(owner, owner.device()),
      /*allocator=*/nullptr, /*resizable=*/false));
}

// The inputs and results of one capture. Results lie in memory of the graph. Each replay wraps them
// in new storages, whose reference counts tell whether a result is in use. Used by one thread at a
// time.
class CapturedTensors {
 public:
  // A capture on the device's current stream; `run` replays it. Access to a result of an earlier
  // step raises `message`.
  CapturedTensors(c10::DeviceIndex device, py::object run, std::string message)
      : stream_(current_stream_state(device)), run_(std::move(run)), message_(std::move(message)) {}

  // An input that is not a tensor. Another value needs another capture.
  void add_number(size_t input, py::object number) {
    numbers_.push_back({input, std::move(number)});
  }

  // An input that the graph reads at its address. Another address needs another capture.
  void add_fixed(size_t input, const at::Tensor& tensor) { fixed_.push_back({input, tensor}); }

  // An input that is copied into `buffer` before each replay, and back if `written`.
  void add_moving(size_t input, const at::Tensor& buffer, bool written) {
    moving_.push_back({input, Layout(buffer), extent_of(buffer), written});
  }

  // The next result: not a tensor.
  void add_constant(py::object constant) {
    results_.push_back({Kind::kConstant, std::move(constant)});
  }

  // The next result: an input or a view of it, `offset` elements after the input's first one.
  void add_view(size_t input, const at::Tensor& result, int64_t offset) {
    results_.push_back({Kind::kView, py::none(), input, result, offset});
  }

  // The next result: in memory of the graph.
  void add_result(const at::Tensor& result) {
    size_t index = 0;
    while (index < storages_.size() && !storages_[index].is_alias_of(result.storage())) ++index;
    if (index == storages_.size()) storages_.push_back(result.storage());
    results_.push_back({Kind::kResult, py::none(), index, result});
  }

  // Indices of fixed inputs with another address or layout.
  std::vector<size_t> misplaced(const py::list& inputs) const {
    std::vector<size_t> result;
    for (const Fixed& one : fixed_) {
      if (!one.suits(tensor_at(inputs, one.input))) result.push_back(one.input);
    }
    return result;
  }

  // Replays, empties `inputs` and returns the results. Returns None and does nothing if the inputs
  // do not suit the capture, results of the same step are in use, or the current stream is another
  // one or captures.
  py::object replay(const py::list& inputs, int64_t step) {
    if ((step == step_ && is_used()) || !takes(inputs)) return py::none();
    const c10::DeviceGuard guard(device_of(stream_.device));
    step_ = step;
    begin(inputs);
    run_();
    return end(inputs);
  }

 private:
  struct Layout {
    explicit Layout(const at::Tensor& tensor)
        : sizes(tensor.sizes().vec()), strides(tensor.strides().vec()), dtype(tensor.dtype()) {}
    bool suits(const at::Tensor& tensor) const {
      return tensor.sizes() == sizes && tensor.strides() == strides && tensor.dtype() == dtype;
    }
    std::vector<int64_t> sizes, strides;
    caffe2::TypeMeta dtype;
  };
  struct Number {
    size_t input;
    py::object number;
  };
  struct Fixed {
    Fixed(size_t input_, const at::Tensor& tensor)
        : input(input_), address(tensor.const_data_ptr()), layout(tensor) {}
    bool suits(const at::Tensor& tensor) const {
      return tensor.const_data_ptr() == address && layout.suits(tensor);
    }
    size_t input;
    const void* address;
    Layout layout;
  };
  struct Moving {
    size_t input;
    Layout layout;
    at::Tensor buffer;
    bool written;
  };
  enum class Kind { kConstant, kView, kResult };
  struct Result {
    Kind kind;
    py::object constant;
    size_t index = 0;  // of an input or of a storage
    at::Tensor tensor = {};
    int64_t offset = 0;
  };

  // Whether the inputs suit the capture: numbers, layouts, addresses.
  bool takes(const py::list& inputs) const {
    if (&current_stream_state(stream_.device) != &stream_ ||
        stream_.capturing.load(std::memory_order_acquire)) {
      return false;
    }
    for (const Number& one : numbers_) {
      if (!item(inputs, one.input).equal(one.number)) return false;
    }
    for (const Moving& one : moving_) {
      if (!one.layout.suits(tensor_at(inputs, one.input))) return false;
    }
    for (const Fixed& one : fixed_) {
      if (!one.suits(tensor_at(inputs, one.input))) return false;
    }
    return true;
  }

  // Whether results of the last replay are referenced.
  bool is_used() const {
    for (const auto& storage : given_) {
      if (storage.use_count() > 0) return true;
    }
    return false;
  }

  // Copies inputs in. Later access to results of the last replay raises the message.
  void begin(const py::list& inputs) {
    if (!moving_.empty()) {
      std::vector<std::pair<at::Tensor, at::Tensor>> copies;
      copies.reserve(moving_.size());
      for (const Moving& one : moving_) {
        copies.push_back({one.buffer, tensor_at(inputs, one.input)});
      }
      py::gil_scoped_release no_gil;
      const at::AutoDispatchBelowADInplaceOrView no_versions;
      for (auto& [buffer, tensor] : copies) buffer.copy_(extent_of(tensor));
    }
    for (const auto& weak : given_) {
      if (auto storage = weak.lock()) {
        storage->release_data_and_set_meta_custom_data_ptr_error_msg_(message_);
      }
    }
    given_.clear();
  }

  // Copies written inputs back, and returns the results. Empties `inputs`.
  py::list end(const py::list& inputs) {
    for (const Moving& one : moving_) {
      if (!one.written) continue;
      const at::Tensor tensor = tensor_at(inputs, one.input);
      py::gil_scoped_release no_gil;
      const at::AutoDispatchBelowADInplaceOrView no_versions;
      extent_of(tensor).copy_(one.buffer);
    }
    std::vector<at::Storage> fresh;
    fresh.reserve(storages_.size());
    for (const at::Storage& storage : storages_) {
      fresh.push_back(storage_over(storage));
      given_.push_back(fresh.back().getWeakStorageImpl());
    }
    py::list results(results_.size());
    for (size_t i = 0; i < results_.size(); ++i) results[i] = result(results_[i], inputs, fresh);
    if (PyList_SetSlice(inputs.ptr(), 0, PyList_GET_SIZE(inputs.ptr()), nullptr) != 0) {
      throw py::error_already_set();
    }
    return results;
  }

  static py::object result(const Result& one, const py::list& inputs,
                           const std::vector<at::Storage>& fresh) {
    switch (one.kind) {
      case Kind::kConstant:
        return one.constant;
      case Kind::kView: {
        const at::Tensor& input = tensor_at(inputs, one.index);
        if (one.offset == 0 && Layout(one.tensor).suits(input)) {
          return py::reinterpret_borrow<py::object>(
              PyList_GET_ITEM(inputs.ptr(), static_cast<Py_ssize_t>(one.index)));
        }
        return py::cast(input.as_strided(one.tensor.sizes(), one.tensor.strides(),
                                         input.storage_offset() + one.offset));
      }
      default: {
        auto made = one.tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
            c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true);
        made->set_storage_keep_dtype(fresh[one.index]);
        return py::cast(at::Tensor(std::move(made)));
      }
    }
  }

  StreamState& stream_;
  py::object run_;
  std::string message_;
  int64_t step_ = -1;  // of the last replay
  std::vector<Number> numbers_;
  std::vector<Fixed> fixed_;
  std::vector<Moving> moving_;
  std::vector<Result> results_;
  std::vector<at::Storage> storages_;  // of results, in memory of the graph
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> given_;
};

}  // namespace

void bind_captures(py::module_& m) {
  m.def(
      "captures_graphs", [] { return driver().graph_begin != nullptr; },
      "Whether the driver captures graphs.");
  py::class_<CapturedTensors>(m, "CapturedTensors")
      .def(py::init<c10::DeviceIndex, py::object, std::string>())
      .def("add_number", &CapturedTensors::add_number)
      .def("add_fixed", &CapturedTensors::add_fixed)
      .def("add_moving", &CapturedTensors::add_moving)
      .def("add_constant", &CapturedTensors::add_constant)
      .def("add_view", &CapturedTensors::add_view)
      .def("add_result", &CapturedTensors::add_result)
      .def("misplaced", &CapturedTensors::misplaced)
      .def("replay", &CapturedTensors::replay);
}

}  // namespace outboard
