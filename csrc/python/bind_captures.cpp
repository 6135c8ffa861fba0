// What runs graphs that PyTorch has compiled: tensors of captured graphs, which are copied in
// before a replay and given out after it.
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

// All that lies between a tensor's first and its last element, gaps and overlaps included.
at::Tensor extent_of(const at::Tensor& tensor) {
  int64_t length = tensor.numel() == 0 ? 0 : 1;
  for (int64_t i = 0; length > 0 && i < tensor.dim(); ++i) {
    length += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return tensor.as_strided({length}, {1});
}

// A storage over the memory of another one, which it keeps.
at::Storage storage_over(const at::Storage& owner) {
  auto* kept = new at::Storage(owner);
  at::DataPtr pointer(
      owner.mutable_data(), kept, [](void* context) { delete static_cast<at::Storage*>(context); },
      owner.device());
  return at::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), owner.nbytes(), std::move(pointer),
      /*allocator=*/nullptr, /*resizable=*/false));
}

// One capture. Its results lie in memory of the graph; each replay gives them out as tensors with
// storages of their own, by which one knows whether they are still referenced. Used by one thread
// at a time.
class CapturedTensors {
 public:
  // A capture on the device's current stream, which `run` replays. Whoever uses results of a step
  // before is told `message`.
  CapturedTensors(c10::DeviceIndex device, py::object run, std::string message)
      : stream_(current_stream_state(device)), run_(std::move(run)), message_(std::move(message)) {}

  // An input that is no tensor: others need another capture.
  void add_number(size_t input, py::object number) {
    numbers_.push_back({input, std::move(number)});
  }

  // An input that the graph reads where it lay. Other addresses need another capture.
  void add_fixed(size_t input, const at::Tensor& tensor) { fixed_.push_back({input, tensor}); }

  // An input that is copied into `buffer` before each replay, and back if `written`.
  void add_moving(size_t input, const at::Tensor& buffer, bool written) {
    moving_.push_back({input, Layout(buffer), extent_of(buffer), written});
  }

  // The next result: what is no tensor.
  void add_constant(py::object constant) {
    results_.push_back({Kind::kConstant, std::move(constant)});
  }

  // The next result: an input, or a view of it, `offset` elements behind its beginning.
  void add_view(size_t input, const at::Tensor& result, int64_t offset) {
    results_.push_back({Kind::kView, py::none(), input, result, offset});
  }

  // The next result: in memory of the graph.
  void add_result(const at::Tensor& result) {
    size_t place = 0;
    while (place < storages_.size() && !storages_[place].is_alias_of(result.storage())) ++place;
    if (place == storages_.size()) storages_.push_back(result.storage());
    results_.push_back({Kind::kResult, py::none(), place, result});
  }

  // Places of inputs that the graph cannot take because they lie elsewhere.
  std::vector<size_t> misplaced(const py::list& inputs) const {
    std::vector<size_t> result;
    for (const Fixed& one : fixed_) {
      if (!one.layout.suits(tensor_at(inputs, one.input)) ||
          tensor_at(inputs, one.input).const_data_ptr() != one.address) {
        result.push_back(one.input);
      }
    }
    return result;
  }

  // The results of a replay, which empties `inputs`. None, and nothing is done, if the inputs are
  // not those of the capture, results that the same step gave out are in use, or the current
  // stream is another one or captures.
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
    size_t place = 0;  // of an input, or of a storage
    at::Tensor tensor = {};
    int64_t offset = 0;
  };

  // Whether all inputs have the sizes, strides and places of the capture.
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
      const at::Tensor& tensor = tensor_at(inputs, one.input);
      if (tensor.const_data_ptr() != one.address || !one.layout.suits(tensor)) return false;
    }
    return true;
  }

  // Whether results of the last replay are still referenced.
  bool is_used() const {
    for (const auto& storage : given_) {
      if (storage.use_count() > 0) return true;
    }
    return false;
  }

  // Copies inputs in. Those who have results of the last replay are told so when they use them.
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

  // The results after a replay. Empties `inputs`.
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
        const at::Tensor& input = tensor_at(inputs, one.place);
        if (one.offset == 0 && Layout(one.tensor).suits(input)) {
          return py::reinterpret_borrow<py::object>(
              PyList_GET_ITEM(inputs.ptr(), static_cast<Py_ssize_t>(one.place)));
        }
        return py::cast(input.as_strided(one.tensor.sizes(), one.tensor.strides(),
                                         input.storage_offset() + one.offset));
      }
      default: {
        auto made = one.tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
            c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true);
        made->set_storage_keep_dtype(fresh[one.place]);
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
  std::vector<at::Storage> storages_;  // of results, where the graph writes them
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
