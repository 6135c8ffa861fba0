#include "tensors/captured_tensors.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StorageImpl.h>

#include <algorithm>
#include <utility>

#include "runtime/driver/device.h"
#include "tensors/dense.h"
#include "tensors/host_view.h"

namespace outboard {
namespace {

const at::Tensor& tensor_at(CapturedTensors::Inputs inputs, size_t index) {
  TORCH_CHECK_TYPE(inputs.at(index) != nullptr, "a captured graph was given no tensor");
  return *inputs[index];
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

}  // namespace

void CapturedTensors::add_moving(size_t input, const at::Tensor& buffer, bool written) {
  moving_.push_back({input, Layout(buffer), extent_of(buffer), written});
}

void CapturedTensors::add_view(size_t input, const at::Tensor& result, int64_t offset) {
  results_.push_back({Kind::kView, input, result, offset});
}

void CapturedTensors::add_result(const at::Tensor& result) {
  size_t index = 0;
  while (index < storages_.size() && !storages_[index].is_alias_of(result.storage())) ++index;
  if (index == storages_.size()) storages_.push_back(result.storage());
  results_.push_back({Kind::kMemory, index, result});
}

std::vector<size_t> CapturedTensors::misplaced(Inputs inputs) const {
  std::vector<size_t> result;
  for (const Fixed& one : fixed_) {
    if (!one.suits(tensor_at(inputs, one.input))) result.push_back(one.input);
  }
  return result;
}

std::optional<std::vector<at::Tensor>> CapturedTensors::replay(Inputs inputs, int64_t step,
                                                               const std::function<void()>& run) {
  if ((step == step_ && is_used()) || !suits(inputs)) return std::nullopt;
  const c10::DeviceGuard guard(device_of(stream_.device));
  step_ = step;
  copy_in(inputs);
  // Later access to results of the last replay raises the message.
  for (const auto& weak : given_) {
    if (auto storage = weak.lock()) {
      storage->release_data_and_set_meta_custom_data_ptr_error_msg_(message_);
    }
  }
  given_.clear();
  run();
  copy_back(inputs);
  return wrap_results(inputs);
}

// Whether stream, layouts and addresses are those of the capture.
bool CapturedTensors::suits(Inputs inputs) const {
  if (&current_stream_state(stream_.device) != &stream_ ||
      stream_.capturing.load(std::memory_order_acquire)) {
    return false;
  }
  return misplaced(inputs).empty() && std::ranges::all_of(moving_, [&](const Moving& one) {
           return one.layout.suits(tensor_at(inputs, one.input));
         });
}

// Whether results of the last replay are referenced.
bool CapturedTensors::is_used() const {
  return std::ranges::any_of(given_, [](const auto& storage) { return storage.use_count() > 0; });
}

void CapturedTensors::copy_in(Inputs inputs) {
  const at::AutoDispatchBelowADInplaceOrView no_versions;
  for (Moving& one : moving_) one.buffer.copy_(extent_of(tensor_at(inputs, one.input)));
}

void CapturedTensors::copy_back(Inputs inputs) {
  const at::AutoDispatchBelowADInplaceOrView no_versions;
  for (const Moving& one : moving_) {
    if (one.written) extent_of(tensor_at(inputs, one.input)).copy_(one.buffer);
  }
}

std::vector<at::Tensor> CapturedTensors::wrap_results(Inputs inputs) {
  std::vector<at::Storage> fresh;
  fresh.reserve(storages_.size());
  for (const at::Storage& storage : storages_) {
    fresh.push_back(storage_over(storage));
    given_.push_back(fresh.back().getWeakStorageImpl());
  }
  std::vector<at::Tensor> results;
  results.reserve(results_.size());
  for (const Result& one : results_) {
    if (one.kind == Kind::kConstant) {
      results.emplace_back();
      continue;
    }
    if (one.kind == Kind::kMemory) {
      auto made = one.tensor.unsafeGetTensorImpl()->shallow_copy_and_detach(
          c10::VariableVersion(0), /*allow_tensor_metadata_change=*/true);
      made->set_storage_keep_dtype(fresh[one.index]);
      results.emplace_back(std::move(made));
      continue;
    }
    const at::Tensor& input = tensor_at(inputs, one.index);
    if (one.offset == 0 && Layout(one.tensor).suits(input)) {
      results.push_back(input);
    } else {
      results.push_back(input.as_strided(one.tensor.sizes(), one.tensor.strides(),
                                         input.storage_offset() + one.offset));
    }
  }
  return results;
}

}  // namespace outboard
