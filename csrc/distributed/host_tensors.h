// Host tensors in place of device tensors during communication.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace outboard::distributed {

// The host tensor of one device tensor: the same memory if shared and dense, else pinned memory
// with copies on the current stream.
class HostTensor {
 public:
  // Enqueues a copy to the host if `read`.
  HostTensor(const at::Tensor& device, bool read);

  // Dense, with the shape and dtype of the device tensor. Valid when the stream reaches this point.
  const at::Tensor& tensor() const { return host_; }
  // Its bytes, for data that is moved and not computed with.
  at::Tensor bytes() const;
  // Enqueues a copy back to the device if the memory is not shared.
  void write_back() const;

 private:
  at::Tensor device_;
  at::Tensor host_;
  bool aliases_;
};

std::vector<HostTensor> on_host(const std::vector<at::Tensor>& device, bool read);
std::vector<at::Tensor> bytes_of(const std::vector<HostTensor>& tensors);
void write_back(const std::vector<HostTensor>& tensors);

}  // namespace outboard::distributed
