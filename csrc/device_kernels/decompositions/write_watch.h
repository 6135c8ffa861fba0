// Detects writes of operators to the memory of given tensors.
#pragma once

#include <ATen/core/stack.h>
#include <ATen/record_function.h>

#include <memory>
#include <vector>

#include "runtime/export.h"

namespace outboard {

// Observes all operator calls of this thread during its lifetime.
class OUTBOARD_API WriteWatch {
 public:
  // Watches all tensors among the values, also in lists.
  explicit WriteWatch(const torch::jit::Stack& values);
  ~WriteWatch();
  WriteWatch(const WriteWatch&) = delete;
  WriteWatch& operator=(const WriteWatch&) = delete;

  bool wrote() const noexcept { return wrote_; }

 private:
  static std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call);
  bool is_written_by(const at::RecordFunction& call) const;

  WriteWatch* const outer_;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
  std::vector<const c10::StorageImpl*> storages_;
  bool wrote_ = false;
};

}  // namespace outboard
