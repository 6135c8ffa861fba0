// Tensors of the host that stand for tensors of a device while others communicate.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace outboard::distributed {

// Of one tensor of the device: over its own memory where the host shares it and its elements lie
// side by side, else pinned memory, which copies on the current stream fill and empty.
class HostTensor {
 public:
  // Enqueues a copy to the host if `read`.
  HostTensor(const at::Tensor& device, bool read);

  // Dense, of the shape and dtype of the device's. Its elements are there when the stream has come
  // to this place.
  const at::Tensor& tensor() const { return host_; }
  // Its bytes: what moves without being computed with.
  at::Tensor bytes() const;
  // Enqueues a copy back to the device where the host's is another memory.
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
