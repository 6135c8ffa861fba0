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
#include <unordered_map>
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
  // A CPU tensor over memory of the device that it does not own.
  struct Alias {
    py::object object;
    const at::Tensor& tensor() const { return THPVariable_Unpack(object.ptr()); }
  };
  // An alias while a call uses it.
  struct Lent {
    size_t place;
    Access access;
    Alias alias;
    at::Tensor device;
    const c10::StorageImpl* storage;
    const void* data;
  };
  // Those of one call, which come back whatever happens.
  class Loan;

  bool is_written(size_t place) const { return place < written_.size() && written_[place]; }
  bool lend(size_t place, const at::Tensor& tensor, std::vector<Lent>& lent);
  void give_back(Lent& lent) noexcept;
  void forget(const Lent& lent) noexcept;

  const c10::DeviceIndex device_;
  std::vector<bool> written_;
  const std::vector<size_t> kept_;
  std::vector<Alias> aliases_;
  // Places by CPU tensor and by its storage.
  std::unordered_map<const void*, size_t> places_;
};

class HostGraphCalls::Loan {
 public:
  explicit Loan(HostGraphCalls& graph) : graph_(graph) {}
  ~Loan() {
    for (Lent& each : lent) graph_.give_back(each);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Lent* find(const void* tensor_or_storage) {
    const auto place = graph_.places_.find(tensor_or_storage);
    if (place == graph_.places_.end()) return nullptr;
    const auto found =
        std::lower_bound(lent.begin(), lent.end(), place->second,
                         [](const Lent& each, size_t wanted) { return each.place < wanted; });
    return found != lent.end() && found->place == place->second ? &*found : nullptr;
  }

  std::vector<Lent> lent;  // by place

 private:
  HostGraphCalls& graph_;
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

// Whether it has the sizes and strides of `tensor`.
bool is_laid_out_like(const at::Tensor& alias, const at::Tensor& tensor) {
  return alias.sizes() == tensor.sizes() && alias.strides() == tensor.strides() &&
         alias.storage_offset() == tensor.storage_offset();
}

bool HostGraphCalls::lend(size_t place, const at::Tensor& tensor, std::vector<Lent>& lent) {
  if (!is_plain(tensor, device_)) return false;
  if (place >= aliases_.size()) aliases_.resize(place + 1);
  const Access access = is_written(place) ? Access::kWrite : Access::kRead;
  c10::StorageImpl* from = tensor.storage().unsafeGetStorageImpl();
  void* data = access == Access::kWrite ? from->mutable_data() : const_cast<void*>(from->data());
  Alias alias{std::exchange(aliases_[place].object, py::object())};
  if (!alias.object || alias.tensor().dtype() != tensor.dtype()) {
    if (alias.object) forget({place, access, alias, tensor, nullptr, data});
    alias.object = py::cast(alias_over(tensor, data));
    places_[alias.tensor().unsafeGetTensorImpl()] = place;
    places_[alias.tensor().storage().unsafeGetStorageImpl()] = place;
  } else {
    c10::StorageImpl* storage = alias.tensor().storage().unsafeGetStorageImpl();
    if (storage->data() != data) {
      storage->set_data_ptr_noswap(c10::DataPtr(data, c10::Device(c10::kCPU)));
    }
    storage->set_nbytes(from->nbytes());
    storage->set_resizable(from->resizable());
    if (!is_laid_out_like(alias.tensor(), tensor)) {
      alias.tensor().unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                                  tensor.storage_offset());
    }
  }
  const c10::StorageImpl* storage = alias.tensor().storage().unsafeGetStorageImpl();
  lent.push_back({place, access, std::move(alias), tensor, storage, data});
  return true;
}

void HostGraphCalls::forget(const Lent& lent) noexcept {
  places_.erase(lent.alias.tensor().unsafeGetTensorImpl());
  places_.erase(lent.storage != nullptr ? lent.storage
                                        : lent.alias.tensor().storage().unsafeGetStorageImpl());
}

// For the next call, unless somebody kept the tensor or changed what it is: then it gets an owner.
void HostGraphCalls::give_back(Lent& lent) noexcept {
  const at::Tensor& tensor = lent.alias.tensor();
  c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
  const bool same_memory = storage == lent.storage && storage->data() == lent.data &&
                           storage->data_ptr().get_context() == nullptr;
  const bool unshared = Py_REFCNT(lent.alias.object.ptr()) == 1 && tensor.use_count() == 1 &&
                        tensor.weak_use_count() == 1 && tensor.storage().use_count() == 1;
  if (same_memory && unshared && !aliases_[lent.place].object &&
      tensor.unsafeGetTensorImpl()->autograd_meta() == nullptr) {
    aliases_[lent.place] = std::move(lent.alias);
    return;
  }
  forget(lent);
  if (same_memory && !unshared) {
    storage->set_data_ptr_noswap(pointer_into(lent.device.storage(), c10::Device(c10::kCPU)));
  }
}

py::list HostGraphCalls::call(const py::object& compiled, const py::list& inputs) {
  Loan loan(*this);
  std::optional<CpuCall> call;
  {
    py::gil_scoped_release release;  // it waits for the current stream
    call.emplace(device_);
  }
  const bool shared = call->way() == Way::kShared;
  const size_t count = inputs.size();
  loan.lent.reserve(count);
  py::list host(count);
  for (size_t i = 0; i < count; ++i) {
    py::object input = inputs[i];
    if (THPVariable_Check(input.ptr())) {
      const at::Tensor& tensor = THPVariable_Unpack(input.ptr());
      if (shared && lend(i, tensor, loan.lent)) {
        input = loan.lent.back().alias.object;
      } else {
        input = py::cast(call->map(tensor, is_written(i) ? Access::kWrite : Access::kRead));
      }
    }
    PyList_SET_ITEM(host.ptr(), static_cast<Py_ssize_t>(i), input.release().ptr());
  }
  inputs.attr("clear")();
  py::list results;
  const auto add = [&](const Lent& each) {
    call->add(each.device, each.alias.tensor(), each.access, each.data);
  };
  for (const py::handle given : compiled(host)) {
    const bool keep = std::find(kept_.begin(), kept_.end(), results.size()) != kept_.end();
    if (keep || !THPVariable_Check(given.ptr())) {
      results.append(given);
      continue;
    }
    const at::Tensor& tensor = THPVariable_Unpack(given.ptr());
    if (const Lent* input = loan.find(tensor.unsafeGetTensorImpl())) {
      results.append(py::cast(input->device));
      continue;
    }
    if (tensor.has_storage()) {
      const Lent* viewed = loan.find(tensor.storage().unsafeGetStorageImpl());
      if (viewed != nullptr) add(*viewed);
    }
    results.append(py::cast(call->result(tensor)));
  }
  for (const Lent& each : loan.lent) {
    const at::Tensor& tensor = each.alias.tensor();
    const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (storage != each.storage || storage->data() != each.data ||
        storage->nbytes() != each.device.storage().nbytes() ||
        !is_laid_out_like(tensor, each.device)) {
      add(each);
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
