// Calls of graphs that were compiled for the CPU with tensors of a device: on its memory where the
// host shares that, on copies elsewhere. What such code calls; packages.
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/COW.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpu_kernels/call/address_index.h"
#include "cpu_kernels/call/change_device.h"
#include "cpu_kernels/call/cpu_alias.h"
#include "cpu_kernels/call/cpu_call.h"
#include "cpu_kernels/call/python_object.h"
#include "cpu_kernels/compiled/calls_on_device.h"
#include "cpu_kernels/compiled/packaged_models.h"
#include "python/bindings.h"
#include "random/graphs/graph_draws.h"
#include "runtime/driver/device.h"

namespace py = pybind11;

namespace outboard {
namespace {

// The calls of one graph. An input without another owner, such as what a forward pass saved for its
// backward pass, becomes a CPU tensor, and is gone as soon as the graph lets it go. For others,
// such as parameters, there are CPU tensors, one for each input, that are made once and pointed at
// the device's memory by each call, since a training step has hundreds of them. Between calls they
// own nothing. The interpreter's lock guards them; a call takes those that it uses away, so that
// another thread meanwhile makes its own.
class HostGraphCalls {
 public:
  // `written`: the inputs whose content changes. `kept`: the results that are CPU tensors for the
  // caller, too. `addresses`: the inputs of which the graph takes nothing but the address.
  HostGraphCalls(c10::DeviceIndex device, const std::vector<size_t>& written,
                 std::vector<size_t> kept, const std::vector<size_t>& addresses)
      : device_(device),
        written_(flags_of(written)),
        kept_(std::move(kept)),
        addresses_(flags_of(addresses)) {}

  // Empties `inputs`. Returns the results, on the device but for those that are kept.
  py::list call(const py::object& compiled, const py::list& inputs);

 private:
  // A CPU tensor over memory of a device's while a call uses it, without owning that.
  struct Lent {
    const at::Tensor& host() const { return THPVariable_Unpack(alias.ptr()); }
    c10::StorageImpl* host_storage() const { return host().storage().unsafeGetStorageImpl(); }

    size_t place;
    py::object alias;
    at::Tensor device;
    const c10::StorageImpl* storage;  // of the alias
    const void* data;
    size_t bytes;
    bool known;  // to the CpuCall
  };
  static const void* tensor_of(const Lent& lent) { return lent.host().unsafeGetTensorImpl(); }
  static const void* storage_of(const Lent& lent) { return lent.storage; }

  // Those of one call, which come back whatever happens.
  struct Loan {
    explicit Loan(HostGraphCalls& graph) : graph(graph), lent(std::move(graph.spare_)) {}
    ~Loan() {
      for (Lent& each : lent) graph.give_back(each);
      lent.clear();
      graph.spare_ = std::move(lent);
    }
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;

    HostGraphCalls& graph;
    std::vector<Lent> lent;
    AddressIndex<tensor_of> by_tensor;
    AddressIndex<storage_of> by_storage;
  };

  static std::vector<bool> flags_of(const std::vector<size_t>& places) {
    std::vector<bool> flags;
    for (const size_t place : places) {
      if (place >= flags.size()) flags.resize(place + 1);
      flags[place] = true;
    }
    return flags;
  }
  static bool is_set(const std::vector<bool>& flags, size_t place) {
    return place < flags.size() && flags[place];
  }

  Access access(size_t place) const {
    return is_set(written_, place) ? Access::kWrite : Access::kRead;
  }
  py::object host_input(size_t place, PyObject* input, CpuCall& call, Loan& loan);
  Lent& lend(size_t place, const at::Tensor& tensor, Loan& loan);
  void give_back(Lent& lent) noexcept;
  py::object device_result(PyObject* result, CpuCall& call, Loan& loan);
  void tell_of_changes(CpuCall& call, Loan& loan);

  const c10::DeviceIndex device_;
  const std::vector<bool> written_;
  const std::vector<size_t> kept_;
  const std::vector<bool> addresses_;
  std::vector<py::object> aliases_;  // by place; none at first, and while one is lent
  std::vector<Lent> spare_;          // empty; its memory serves the next call
};

// What an alias can stand for: memory, sizes and strides alone. Copy-on-write memory may move.
bool is_plain(const at::Tensor& tensor, c10::DeviceIndex device) {
  if (!tensor.defined() || !tensor.is_privateuseone() || tensor.device().index() != device ||
      tensor.layout() != at::kStrided || tensor.is_nested() || tensor.is_quantized()) {
    return false;
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->has_storage() && !impl->is_conj() && !impl->is_neg() && !impl->is_wrapped_number() &&
         !impl->key_set().has(c10::DispatchKey::ZeroTensor) &&
         !impl->has_symbolic_sizes_strides() &&
         !c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr());
}

// Whether no other tensor has the storage of one. An object that Python had of it stays with it.
bool is_alone(const at::Tensor& tensor) {
  const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const size_t count = tensor.storage().use_count();
  if (count == 1) return true;
  const PyObject* object = count == 2 ? python_object(storage->pyobj_slot()) : nullptr;
  return object != nullptr && Py_REFCNT(object) == 1;
}

at::Tensor alias_over(const at::Tensor& tensor, void* data) {
  // It serves in inference mode and outside.
  const c10::InferenceMode no_inference(false);
  const c10::StorageImpl* device = tensor.storage().unsafeGetStorageImpl();
  return tensor_over(
      c10::Storage(c10::make_intrusive<c10::StorageImpl>(
          c10::StorageImpl::use_byte_size_t(), device->nbytes(),
          c10::DataPtr(data, c10::Device(c10::kCPU)), c10::GetCPUAllocator(), device->resizable())),
      kCpuKeys, tensor);
}

// Makes an alias that stood for another tensor of the same dtype stand for this one.
void point_at(const at::Tensor& alias, const at::Tensor& tensor, void* data) {
  const c10::StorageImpl* device = tensor.storage().unsafeGetStorageImpl();
  c10::StorageImpl* storage = alias.storage().unsafeGetStorageImpl();
  if (storage->data() != data) {
    storage->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
  }
  storage->set_nbytes(device->nbytes());
  storage->set_resizable(device->resizable());
  if (alias.sizes() != tensor.sizes() || alias.strides() != tensor.strides() ||
      alias.storage_offset() != tensor.storage_offset()) {
    alias.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                       tensor.storage_offset());
  }
}

// The alias of an input, for a plain tensor.
HostGraphCalls::Lent& HostGraphCalls::lend(size_t place, const at::Tensor& tensor, Loan& loan) {
  if (place >= aliases_.size()) aliases_.resize(place + 1);
  c10::StorageImpl* from = tensor.storage().unsafeGetStorageImpl();
  void* data =
      access(place) == Access::kWrite ? from->mutable_data() : const_cast<void*>(from->data());
  py::object alias = std::exchange(aliases_[place], py::object());
  if (alias && THPVariable_Unpack(alias.ptr()).dtype() == tensor.dtype()) {
    point_at(THPVariable_Unpack(alias.ptr()), tensor, data);
  } else {
    alias = py::cast(alias_over(tensor, data));
  }
  const c10::StorageImpl* storage =
      THPVariable_Unpack(alias.ptr()).storage().unsafeGetStorageImpl();
  return loan.lent.emplace_back(
      Lent{place, std::move(alias), tensor, storage, data, from->nbytes(), false});
}

// For the next call, unless the caller kept the tensor or changed it: then it gets an owner.
void HostGraphCalls::give_back(Lent& lent) noexcept {
  const at::Tensor& tensor = lent.host();
  c10::StorageImpl* storage = lent.host_storage();
  if (storage != lent.storage || storage->data() != lent.data ||
      storage->data_ptr().get_context() != nullptr) {
    return;
  }
  if (Py_REFCNT(lent.alias.ptr()) != 1 || tensor.use_count() != 1 || tensor.weak_use_count() != 1 ||
      tensor.storage().use_count() != 1) {
    storage->set_data_ptr_noswap(pointer_into(lent.device.storage(), c10::Device(c10::kCPU)));
    return;
  }
  if (tensor.unsafeGetTensorImpl()->autograd_meta() == nullptr) {
    aliases_[lent.place] = std::move(lent.alias);
  }
}

// What the graph is given for an input, which is still in the caller's list.
py::object HostGraphCalls::host_input(size_t place, PyObject* input, CpuCall& call, Loan& loan) {
  if (!THPVariable_Check(input)) return py::reinterpret_borrow<py::object>(input);
  const at::Tensor& tensor = THPVariable_Unpack(input);
  if (call.placement() != Placement::kHost || !is_plain(tensor, device_)) {
    return py::cast(call.map(tensor, access(place)));
  }
  const bool alone = is_alone(tensor);
  const bool becomes_cpu =
      Py_REFCNT(input) == 1 && THPVariable_CheckExact(input) && turn_into_cpu(tensor);
  if (becomes_cpu || (alone && is_set(addresses_, place))) {
    return py::reinterpret_borrow<py::object>(input);
  }
  // Inputs over one storage share a CPU storage, too, which is the call's business.
  if (!alone && call.knows(tensor.storage())) return py::cast(call.map(tensor, access(place)));
  Lent& lent = lend(place, tensor, loan);
  if (!alone) {
    call.add(tensor, lent.host(), access(place), lent.data, lent.bytes);
    lent.known = true;
  }
  return lent.alias;
}

// What the caller gets for a result, which a list or tuple of the graph's holds.
py::object HostGraphCalls::device_result(PyObject* result, CpuCall& call, Loan& loan) {
  if (THPVariable_Check(result)) {
    const at::Tensor& host = THPVariable_Unpack(result);
    if (call.placement() == Placement::kHost && Py_REFCNT(result) == 1 &&
        THPVariable_CheckExact(result) && turn_into_device(host, device_)) {
      return py::reinterpret_borrow<py::object>(result);
    }
    if (host.defined() && host.is_cpu() && host.has_storage()) {
      if (const Lent* lent = loan.by_tensor.find(loan.lent, host.unsafeGetTensorImpl())) {
        return py::cast(lent->device);
      }
      Lent* lent = loan.by_storage.find(loan.lent, host.storage().unsafeGetStorageImpl());
      if (lent != nullptr && !lent->known) {
        call.add(lent->device, lent->host(), access(lent->place), lent->data, lent->bytes);
        lent->known = true;
      }
    }
    return py::cast(call.result(host));
  }
  return py::reinterpret_borrow<py::object>(result);
}

// Of inputs to which the graph gave other memory, sizes or strides.
void HostGraphCalls::tell_of_changes(CpuCall& call, Loan& loan) {
  for (Lent& lent : loan.lent) {
    if (lent.known) continue;
    const at::Tensor& host = lent.host();
    const c10::StorageImpl* storage = lent.host_storage();
    const bool written = access(lent.place) == Access::kWrite;
    if (storage->data() != lent.data || storage->nbytes() != lent.bytes ||
        (written &&
         (host.sizes() != lent.device.sizes() || host.strides() != lent.device.strides() ||
          host.storage_offset() != lent.device.storage_offset()))) {
      call.add(lent.device, host, access(lent.place), lent.data, lent.bytes);
      lent.known = true;
    }
  }
}

py::list HostGraphCalls::call(const py::object& compiled, const py::list& inputs) {
  const DeviceScope scope(device_);  // for operators that draw on the device
  Loan loan(*this);
  std::optional<CpuCall> call;
  {
    py::gil_scoped_release release;  // it waits for the current stream
    call.emplace(device_);
  }
  const auto count = static_cast<Py_ssize_t>(inputs.size());
  loan.lent.reserve(count);
  py::list host(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    py::object input = host_input(i, PyList_GET_ITEM(inputs.ptr(), i), *call, loan);
    PyList_SET_ITEM(host.ptr(), i, input.release().ptr());
  }
  if (PyList_SetSlice(inputs.ptr(), 0, count, nullptr) != 0) throw py::error_already_set();
  const auto given = py::reinterpret_steal<py::object>(
      PySequence_Fast(compiled(std::move(host)).ptr(), "a compiled graph returns its results"));
  if (!given) throw py::error_already_set();
  const Py_ssize_t results = PySequence_Fast_GET_SIZE(given.ptr());
  py::list ours(results);
  for (Py_ssize_t i = 0; i < results; ++i) {
    PyObject* result = PySequence_Fast_GET_ITEM(given.ptr(), i);
    const bool keep = std::find(kept_.begin(), kept_.end(), i) != kept_.end();
    py::object object =
        keep ? py::reinterpret_borrow<py::object>(result) : device_result(result, *call, loan);
    PyList_SET_ITEM(ours.ptr(), i, object.release().ptr());
  }
  tell_of_changes(*call, loan);
  call->finish();
  return ours;
}

}  // namespace

void bind_host_graphs(py::module_& m) {
  py::class_<HostGraphCalls>(m, "HostGraphCalls")
      .def(py::init<c10::DeviceIndex, const std::vector<size_t>&, std::vector<size_t>,
                    const std::vector<size_t>&>(),
           py::arg("device"), py::arg("written"), py::arg("kept"),
           py::arg("addresses") = std::vector<size_t>())
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
