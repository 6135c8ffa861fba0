// Description of a program for the norms of a list of tensors.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <string>

namespace outboard {

struct ListNormsSource {
  std::string order;  // "1", "2" or "inf"
  at::ScalarType dtype;
  int calls;        // tensors of a launch
  int width;        // of vectors
  int chunk;        // elements of a work item in a part
  int parts;        // of a work-group
  int local;        // work items of a work-group
  int64_t spacing;  // elements from a norm to the next
};

}  // namespace outboard
