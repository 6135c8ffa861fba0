// Description of a program for the norms of a list of tensors.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

namespace outboard {

struct ListNormsSource {
  std::string order;  // "1", "2" or "inf"
  at::ScalarType dtype;
  int calls;        // tensors per launch
  int width;        // of vectors
  int chunk;        // elements per work-item and part
  int parts;        // per work-group
  int local;        // work-items per work-group
  int64_t spacing;  // elements between norms
};

}  // namespace outboard
