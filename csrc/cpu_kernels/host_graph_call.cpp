#include "cpu_kernels/host_graph_call.h"

#include <c10/core/impl/COW.h>

#include "tensors/host_view.h"

namespace outboard {
namespace {

// Whether the memory of `tensor` can be viewed independently of other inputs. Writing to one input
// moves the copy-on-write storage of others; CpuCall handles that.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_privateuseone() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.is_quantized() && tensor.has_storage() &&
         !c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr());
}

}  // namespace

// A CpuCall keeps mapped tensors until its end. A view keeps only the storage, so that a saved
// result of a forward pass is freed as soon as the graph releases it.
at::Tensor HostGraphCall::input(const at::Tensor& tensor, bool written) {
  const Access access = written ? Access::kWrite : Access::kRead;
  const bool viewed = call_.placement() == Placement::kHost && is_plain(tensor);
  at::Tensor host = viewed ? host_tensor(tensor, access) : call_.map(tensor, access);
  if (written) written_.emplace_back(tensor, host);
  return host;
}

at::Tensor HostGraphCall::result(const at::Tensor& host, bool owned) {
  if (owned && call_.placement() == Placement::kHost && turn_into_device(host, device_)) {
    return host;
  }
  return call_.result(host);
}

void HostGraphCall::finish() {
  for (const auto& [device, host] : written_) call_.written(device, host);
  call_.finish();
}

}  // namespace outboard
