// A trace of dispatch: every operator call through PyTorch's dispatcher, on all threads, with its
// dispatch keys and its placement.
#pragma once

#include <c10/core/ScalarType.h>
#include <c10/core/DispatchKey.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dispatch/router.h"
#include "runtime/export.h"

namespace outboard {

struct TracedCall {
  std::string name;  // "aten::add.Tensor", an autograd node, or a range of the program
  bool is_operator;
  // Highest priority first: keys of its tensors and of the thread, fallthrough keys included.
  std::vector<c10::DispatchKey> keys;
  // Of the first tensor argument; undefined if there is none.
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::string device;                  // "host:0"; "" for none
  std::optional<Placement> placement;  // null: not run by the router
  int64_t parent = -1;                 // number of the calling call; -1: none
  uint64_t thread = 0;       // number of the thread, from 0 in the order of their first calls
  uint64_t nanoseconds = 0;  // in the calling thread; 0 while it runs
  bool raised = false;       // it ended with an exception
};

// Starts a new trace. Raises RuntimeError if one is running.
OUTBOARD_API void start_dispatch_trace();
// Stops it and returns its calls; a call's number is its index. `dropped`: calls beyond the limit.
OUTBOARD_API std::vector<TracedCall> stop_dispatch_trace(uint64_t& dropped);

}  // namespace outboard
