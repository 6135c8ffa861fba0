// A trace of dispatch: every operator that is called through PyTorch's dispatcher, on all threads,
// with the keys that its call had, and where the router ran it.
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
  std::string name;  // "aten::add.Tensor", or of a node of autograd or a range of the program
  bool is_operator;
  // The highest first: of its tensors and of the thread, those that fall through included.
  std::vector<c10::DispatchKey> keys;
  // Of the first tensor among the arguments; undefined for none.
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::string device;                  // "host:0"; "" for none
  std::optional<Placement> placement;  // null: not by the router
  int64_t parent = -1;                 // the call that it is a part of, by its number; -1 for none
  uint64_t thread = 0;       // a number of the thread, from 0 in the order of their first calls
  uint64_t nanoseconds = 0;  // in the calling thread; 0 while it runs
  bool raised = false;       // it ended with an exception
};

// Starts to record, anew.
// Raises RuntimeError if a trace is on.
OUTBOARD_API void start_dispatch_trace();
// Ends that and returns what was recorded; a call's number is its place. `dropped` is the number of
// calls that came after the most that are kept.
OUTBOARD_API std::vector<TracedCall> stop_dispatch_trace(uint64_t& dropped);

}  // namespace outboard
