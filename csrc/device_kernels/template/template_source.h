// Description of a program of a kernel template.
#pragma once

#include <c10/core/ScalarType.h>

#include <string>
#include <utility>
#include <vector>

namespace outboard {

constexpr int kTemplateDimensions = 8;  // of a tensor with sizes and strides
constexpr int kTemplateList = 16;       // numbers in a list

struct TemplateSource {
  struct Tensor {
    std::string name;
    at::ScalarType dtype;  // Undefined: absent
    bool items;            // moved whole
    bool strided;
  };
  std::vector<Tensor> tensors;
  std::vector<std::string> scalars;
  std::vector<std::string> numbers;
  std::vector<std::string> reals;
  std::vector<std::string> lists;
  std::vector<std::pair<std::string, int64_t>> constants;
  std::string kernels;
  at::ScalarType compute;  // dtype of values
  bool moves_items;        // scalars are items
  bool random;
  bool reports;
  bool wide;  // 64-bit indices
  bool gpu;
  int width;  // of vectors, 1 without
  int local;  // size of work-groups
};

}  // namespace outboard
