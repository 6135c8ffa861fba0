// Interface by which C++ describes a kernel and torch_outboard/ops/sources writes its source.
#pragma once

#include <c10/core/ScalarType.h>

#include <memory>
#include <string>

#include "runtime/export.h"

namespace outboard {

struct ListNormsSource;
struct PointwiseSource;
struct ReductionSource;
struct TemplateSource;

// Functions return OpenCL C and raise ValueError for an invalid definition. Any thread may call
// them, without a lock that a thread with the interpreter lock may wait for.
class OUTBOARD_API SourceWriter {
 public:
  virtual ~SourceWriter() = default;
  virtual std::string pointwise(const PointwiseSource& source) const = 0;
  virtual std::string reduction(const ReductionSource& source) const = 0;
  virtual std::string list_norms(const ListNormsSource& source) const = 0;
  virtual std::string kernel_template(const TemplateSource& source) const = 0;
  // `definitions`: further macros; `kernels` follow all macros.
  virtual std::string product(at::ScalarType dtype, at::ScalarType compute, int width, bool wide,
                              const std::string& definitions, const std::string& kernels) const = 0;
  virtual std::string fourier(at::ScalarType real, int64_t lanes, bool wide, int64_t dimensions,
                              const std::string& kernels) const = 0;
};

// Call before the first kernel. The writer is never destroyed.
OUTBOARD_API void set_source_writer(std::unique_ptr<SourceWriter> writer);
const SourceWriter& source_writer();

}  // namespace outboard
