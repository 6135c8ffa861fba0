// One call of a kernel template, while it goes through the steps of template_call.cpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "device_kernels/template/template.h"
#include "runtime/generator.h"

namespace outboard {

struct TemplateKernel::Call {
  struct Planned {
    size_t launch;
    uint64_t items;
    uint64_t repeat;
  };

  Call(const ExpressionGraph& graph, c10::DeviceIndex device) : device(device), values(graph) {}

  c10::DeviceIndex device;
  std::vector<at::Tensor> tensors;  // as kernels see them
  std::vector<at::Tensor> results;  // as they are returned
  c10::SmallVector<at::ScalarType, 8> dtypes;
  Evaluation values;
  std::vector<at::Tensor> meta;  // results by PyTorch's Meta kernel
  std::vector<at::Scalar> scalars;
  PhiloxState philox{0, 0};
  // What launches need: parameters and constants of kernels in their order, and how often which.
  c10::SmallVector<int64_t, 16> numbers;
  c10::SmallVector<double, 8> reals;
  c10::SmallVector<c10::SmallVector<int64_t, 6>, 2> lists;
  c10::SmallVector<int64_t, 8> constants;
  c10::SmallVector<Planned, 4> launches;
  int lanes = 1;  // of a work-group
  bool wide = false;
};

}  // namespace outboard
