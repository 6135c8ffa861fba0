// Calls of graphs that were compiled for the CPU with tensors of a device: on its memory where the
// host shares that, on copies elsewhere.
#include <ATen/core/Tensor.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/COW.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cpu_kernels/call/cpu_alias.h"
#include "cpu_kernels/call/cpu_call.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace outboard {
namespace {

// The calls of one graph. Its CPU tensors, one for each input, are made once and pointed at the
// device's memory by each call, since a training step has hundreds of inputs. Between calls they
// own nothing. The interpreter's lock guards them; a call takes those that it uses away, so that
// another thread meanwhile makes its own.
class HostGraphCalls {
 public:
  // `written`: the inputs whose content changes. `kept`: the results that are CPU tensors for the
  // caller, too.
  HostGraphCalls(c10::DeviceIndex device, const std::vector<size_t>& written,
                 std::vector<size_t> kept)
      : device_(device), kept_(std::move(kept)) {
    for (const size_t place : written) {
      if (place >= written_.size()) written_.resize(place + 1);
      written_[place] = true;
    }
  }

  // Empties `inputs`. Returns the results, on the device but for those that are kept.
  py::list call(const py::object& compiled, const py::list& inputs);

 private:
  // A CPU tensor over memory of a device's while a call uses it, without owning that.
  struct Lent {
    size_t place;
    py::object alias;
    at::Tensor device;
    const c10::StorageImpl* storage;  // of the alias
    const void* data;
  };
  // Those of one call, which come back whatever happens.
  struct Loan {
    ~Loan() {
      for (Lent& each : lent) graph.give_back(each);
    }
    HostGraphCalls& graph;
    std::vector<Lent> lent;
  };

  Access access(size_t place) const {
    return place < written_.size() && written_[place] ? Access::kWrite : Access::kRead;
  }
  const py::object& lend(size_t place, const at::Tensor& tensor, Loan& loan);
  void give_back(Lent& lent) noexcept;

  const c10::DeviceIndex device_;
  std::vector<bool> written_;
  const std::vector<size_t> kept_;
  std::vector<py::object> aliases_;  // by place; none at first, and while one is lent
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
const py::object& HostGraphCalls::lend(size_t place, const at::Tensor& tensor, Loan& loan) {
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
  const at::Tensor& host = THPVariable_Unpack(alias.ptr());
  const c10::StorageImpl* storage = host.storage().unsafeGetStorageImpl();
  return loan.lent.emplace_back(place, std::move(alias), tensor, storage, data).alias;
}

// For the next call, unless somebody kept the tensor or changed what it is: then it gets an owner.
void HostGraphCalls::give_back(Lent& lent) noexcept {
  const at::Tensor& tensor = THPVariable_Unpack(lent.alias.ptr());
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
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

py::list HostGraphCalls::call(const py::object& compiled, const py::list& inputs) {
  Loan loan{*this, {}};
  std::optional<CpuCall> call;
  {
    py::gil_scoped_release release;  // it waits for the current stream
    call.emplace(device_);
  }
  const size_t count = inputs.size();
  loan.lent.reserve(count);
  py::list host(count);
  for (size_t i = 0; i < count; ++i) {
    py::object input = inputs[i];
    if (THPVariable_Check(input.ptr())) {
      const at::Tensor& tensor = THPVariable_Unpack(input.ptr());
      // Inputs over one storage share a CPU storage, too, which is the call's business.
      if (call->way() == Way::kShared && is_plain(tensor, device_) &&
          !call->knows(tensor.storage())) {
        py::object alias = lend(i, tensor, loan);
        call->add(tensor, THPVariable_Unpack(alias.ptr()), access(i));
        input = std::move(alias);
      } else {
        input = py::cast(call->map(tensor, access(i)));
      }
    }
    PyList_SET_ITEM(host.ptr(), static_cast<Py_ssize_t>(i), input.release().ptr());
  }
  inputs.attr("clear")();
  py::list results;
  for (const py::handle given : compiled(host)) {
    const bool keep = std::find(kept_.begin(), kept_.end(), results.size()) != kept_.end();
    if (!keep && THPVariable_Check(given.ptr())) {
      results.append(py::cast(call->result(THPVariable_Unpack(given.ptr()))));
    } else {
      results.append(given);
    }
  }
  call->finish();
  return results;
}

}  // namespace

void bind_host_graphs(py::module_& m) {
  py::class_<HostGraphCalls>(m, "HostGraphCalls")
      .def(py::init<c10::DeviceIndex, const std::vector<size_t>&, std::vector<size_t>>(),
           py::arg("device"), py::arg("written"), py::arg("kept"))
      .def("__call__", &HostGraphCalls::call);
}

}  // namespace outboard
