// Interface by which C++ describes a kernel and torch_outboard/ops/sources writes its source.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "runtime/export.h"

namespace outboard {

// Keyword arguments of a function or a dataclass of torch_outboard/ops/sources. Its parameters are
// the only list of them: one that is missing there or here raises TypeError, which names it.
struct SourceFields {
  using Value =
      std::variant<std::monostate, bool, int64_t, std::string, at::ScalarType, std::vector<bool>,
                   std::vector<std::string>, std::vector<at::ScalarType>,
                   std::vector<std::pair<std::string, std::string>>,
                   std::vector<std::pair<std::string, int64_t>>, std::vector<SourceFields>>;

  const char* name;  // of the function or the dataclass
  // monostate and Undefined are None.
  std::vector<std::pair<const char*, Value>> values;
};

// Returns OpenCL C and raises ValueError for an invalid definition. Any thread may call it, but not
// with a lock that a thread with the interpreter lock may wait for.
OUTBOARD_API std::string write_source(const SourceFields& fields);

// Call before the first kernel. The writer is never destroyed.
OUTBOARD_API void set_source_writer(std::function<std::string(const SourceFields&)> writer);

}  // namespace outboard
