// The body of `cat`, in C++ for speed.
#include <ATen/core/Tensor.h>

#include <vector>

#include "device_kernels/pointwise/copy_together.h"
#include "device_kernels/definitions/definition.h"

namespace outboard {
namespace {

bool cat(torch::jit::Stack& values) {
  const std::vector<at::Tensor> tensors = values[0].toTensorVector();
  const int64_t dim = values[1].toInt();
  const at::Tensor out = values[2].toTensor();
  values.clear();
  int64_t start = 0;
  std::vector<at::Tensor> parts, sources;
  for (const at::Tensor& tensor : tensors) {
    // PyTorch's legacy rule: an empty 1-d tensor concatenates with any shape.
    if (tensor.dim() == 1 && tensor.size(0) == 0) continue;
    const int64_t count = tensor.size(dim);
    parts.push_back(out.narrow(dim, start, count));
    sources.push_back(tensor);
    start += count;
  }
  if (copy_together(parts, sources)) return true;
  for (size_t i = 0; i < parts.size(); ++i) parts[i].copy_(sources[i]);
  return true;
}

OUTBOARD_DECOMPOSITION(cat, "tensors dim out");

}  // namespace
}  // namespace outboard
