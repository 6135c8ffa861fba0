#include "distributed/host_tensors.h"

#include <ATen/Functions.h>

#include "runtime/driver/device.h"
#include "tensors/host_view.h"

namespace outboard::distributed {

HostTensor::HostTensor(const at::Tensor& device, bool read)
    : device_(device),
      aliases_(device.is_contiguous() && !device.is_conj() && !device.is_neg() &&
               shares_host_memory(device.device().index())) {
  if (aliases_) {
    host_ = host_tensor(device, Access::kWrite);
    return;
  }
  host_ = at::empty(device.sizes(), device.options().device(at::kCPU).pinned_memory(true));
  if (read) host_.copy_(device, /*non_blocking=*/true);
}

at::Tensor HostTensor::bytes() const {
  const at::Tensor flat = host_.reshape({-1});
  return flat.is_complex() ? at::view_as_real(flat).reshape({-1}).view(at::kByte)
                           : flat.view(at::kByte);
}

void HostTensor::write_back() const {
  if (!aliases_) device_.copy_(host_, /*non_blocking=*/true);
}

std::vector<HostTensor> on_host(const std::vector<at::Tensor>& device, bool read) {
  std::vector<HostTensor> tensors;
  tensors.reserve(device.size());
  for (const at::Tensor& tensor : device) tensors.emplace_back(tensor, read);
  return tensors;
}

std::vector<at::Tensor> bytes_of(const std::vector<HostTensor>& tensors) {
  std::vector<at::Tensor> bytes;
  for (const HostTensor& tensor : tensors) bytes.push_back(tensor.bytes());
  return bytes;
}

void write_back(const std::vector<HostTensor>& tensors) {
  for (const HostTensor& tensor : tensors) tensor.write_back();
}

}  // namespace outboard::distributed
