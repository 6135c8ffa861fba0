// Who writes the sources of kernels: the functions of torch_outboard/ops/sources.
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

// Each gives OpenCL C. They may be called on any thread, with no lock held that a thread of the
// interpreter may wait for, and raise ValueError for what a definition has wrong.
class OUTBOARD_API SourceWriter {
 public:
  virtual ~SourceWriter() = default;
  virtual std::string pointwise(const PointwiseSource& source) const = 0;
  virtual std::string reduction(const ReductionSource& source) const = 0;
  virtual std::string list_norms(const ListNormsSource& source) const = 0;
  virtual std::string kernel_template(const TemplateSource& source) const = 0;
  // `definitions` are further macros, `text` the kernels behind all of them.
  virtual std::string product(at::ScalarType dtype, at::ScalarType compute, int width, bool wide,
                              const std::string& definitions, const std::string& text) const = 0;
  virtual std::string fourier(at::ScalarType real, int64_t lanes, bool wide, int64_t dimensions,
                              const std::string& text) const = 0;
};

// Lives for ever. To be set before the first kernel.
OUTBOARD_API void set_source_writer(std::unique_ptr<SourceWriter> writer);
const SourceWriter& source_writer();

}  // namespace outboard
