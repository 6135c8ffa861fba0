// all_reduce of sparse tensors, by the CPU backend.
#include <torch/library.h>

#include <chrono>

#include "distributed/process_group.h"
#include "runtime/streams/stream.h"

namespace outboard::distributed {

// The caller waits, because the number of elements of the sum is not known before.
ProcessGroup::WorkPointer ProcessGroup::allreduce_sparse(std::vector<at::Tensor>& tensors,
                                                         const c10d::AllreduceOptions& options) {
  TORCH_CHECK_VALUE(tensors.size() == 1, "one tensor is expected, and got ", tensors.size());
  at::Tensor& tensor = tensors[0];
  TORCH_CHECK_VALUE(tensor.layout() == at::kSparse, "tensors of layout ", tensor.layout(),
                    " are not reduced; convert by to_sparse() or to_dense()");
  TORCH_CHECK_VALUE(!options.sparseIndices.has_value(), "indices of the sum cannot be given");
  c10d::AllreduceOptions mine = options;
  const bool averages = options.reduceOp.op_ == c10d::ReduceOp::AVG;
  if (averages) mine.reduceOp = c10d::ReduceOp::SUM;
  at::Tensor host = tensor.coalesce().cpu();
  const WorkPointer work =
      run({c10d::OpType::_ALLREDUCE_SPARSE, {}, {}, false, [this, mine, host](auto&, auto&) {
             Tensors sums = {host};
             finish(cpu_backend_->allreduce(sums, mine));
           }});
  work->wait(std::chrono::hours(24 * 365));
  if (averages) host.div_(size_);
  tensor.copy_(host.to(tensor.device()));
  return c10::make_intrusive<CollectiveWork>(
      rank_, c10d::OpType::ALLREDUCE, std::vector<std::shared_ptr<HostPart>>{},
      std::vector<c10::Stream>{current_stream(tensor.device().index())}, tensors);
}

namespace {

// PyTorch's dense kernel only looks up the group's backend, so it also serves sparse tensors.
void as_dense(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

TORCH_LIBRARY_IMPL(c10d, SparsePrivateUse1, library) {
  library.impl("allreduce_", torch::CppFunction::makeFromBoxedFunction<&as_dense>());
}

}  // namespace
}  // namespace outboard::distributed
