#include "device_kernels/decompositions/write_watch.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <algorithm>

namespace outboard {
namespace {

thread_local WriteWatch* t_watch = nullptr;

template <class Function>
void for_storages(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && tensor.has_storage()) {
      function(tensor.storage().unsafeGetStorageImpl());
    }
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) for_storages(element, function);
  }
}

}  // namespace

WriteWatch::WriteWatch(const torch::jit::Stack& values) : outer_(t_watch) {
  for (const c10::IValue& value : values) {
    for_storages(value, [&](const c10::StorageImpl* storage) { storages_.push_back(storage); });
  }
  if (outer_ == nullptr) {
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&see).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  }
  t_watch = this;
}

WriteWatch::~WriteWatch() {
  t_watch = outer_;
  if (outer_ == nullptr) at::removeCallback(handle_);
}

std::unique_ptr<at::ObserverContext> WriteWatch::see(const at::RecordFunction& call) {
  for (WriteWatch* watch = t_watch; watch != nullptr; watch = watch->outer_) {
    if (!watch->wrote_) watch->wrote_ = watch->is_written_by(call);
  }
  return nullptr;
}

bool WriteWatch::is_written_by(const at::RecordFunction& call) const {
  const auto inputs = call.inputs();
  std::vector<size_t> watched;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for_storages(inputs[i], [&](const c10::StorageImpl* storage) {
      const bool known = std::find(storages_.begin(), storages_.end(), storage) != storages_.end();
      if (known) watched.push_back(i);
    });
  }
  if (watched.empty()) return false;
  const std::optional<c10::FunctionSchema> schema = call.operator_schema();
  return schema.has_value() && std::any_of(watched.begin(), watched.end(), [&](size_t i) {
           const c10::AliasInfo* alias = schema->arguments().at(i).alias_info();
           return alias != nullptr && alias->isWrite();
         });
}

}  // namespace outboard
