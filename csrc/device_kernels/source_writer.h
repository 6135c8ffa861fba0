// Interface by which C++ describes a kernel and torch_outboard/ops/sources writes its source.
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/work_shape.h"
#include "runtime/export.h"

namespace outboard {

// Dimension limit of the strided pointwise kernel, after collapsing.
constexpr int kPointwiseDimensions = 12;
// Elements of a tile along each dimension, in the pointwise kernel for crossed inputs.
constexpr int kCrossedTile = 32;

// A pointwise program: one expression over operands of given dtypes. Kernels: for contiguous
// operands and for any strides; or for crossed inputs, contiguous along another dimension than the
// outputs; or for contiguous operands of many calls, such as operators over lists.
struct PointwiseSource {
  // Result of an expression: a value of the compute dtype, the mask of a comparison, or the real
  // value type of a complex one.
  enum class Result { kValue, kMask, kReal };
  struct Output {
    at::ScalarType dtype;
    Result result;
    std::string expression;
    std::optional<size_t> in_place;  // many calls: the input with its memory
  };
  struct Input {
    std::string name;  // in the expressions
    at::ScalarType dtype;
    bool mask;             // a mask instead of a value
    bool by_value;         // a kernel argument of the compute dtype, not memory
    bool uniform = false;  // one element, read once per work-item
    // Many calls: shared by all calls; one element where outputs have more.
    bool common = false;
    bool single = false;
  };

  std::vector<Output> outputs;
  std::vector<Input> inputs;
  std::vector<std::string> scalars;  // arguments of the compute dtype
  std::vector<bool> listed_scalars;  // many calls: one value per call
  // The divisor of integers: if one of its elements is 0, the kernel sets the assert flag, its last
  // argument. Not for crossed inputs.
  std::optional<size_t> divisor;
  // A condition: if it holds for an element, the kernel sets its last argument, of float32, to 1.
  // Not together with a divisor, nor for crossed inputs.
  std::string condition;
  // Names and scalar expressions that a work-group computes once from uniform inputs and scalars;
  // `expressions` use them as scalars.
  std::vector<std::pair<std::string, std::string>> once;
  at::ScalarType compute;
  WorkShape shape;
  bool wide_index;       // 64-bit
  bool scalar = false;   // the expressions are valid for scalars only
  bool crossed = false;  // only the kernel for crossed inputs; needs vectors
  int calls = 0;         // if not 0, only the kernel for so many calls

  // Elements of a vector; 1 for complex values, which have no vectors.
  OUTBOARD_API int width() const;
  // Elements per work-item; for many calls the parts of `parts()` consecutive groups.
  int elements() const { return shape.elements(width()); }
  // Passes of a work-group over its elements, for many calls.
  int parts() const { return shape.chunk == 0 ? 4 : 1; }
};

// Limits of the reduced and of the other dimensions, each after collapsing.
constexpr int kReductionDimensions = 8;
// Vectors per work-item in the reduction kernel `across`.
constexpr int kReductionColumns = 8;

// The properties of a reduction that kernels contain (reduction.cpp).
struct ReductionDescription {
  std::vector<std::string> fields;  // "T total"
  std::string initial, step, merge;
  std::vector<std::string> results;
  std::vector<bool> indices;            // per result
  std::vector<std::string> parameters;  // numbers of the compute dtype

  // Upper bound of the bytes of a scalar state.
  size_t state_bytes() const { return 16 * fields.size(); }
};

struct ReductionSource {
  const ReductionDescription& description;
  at::ScalarType input;
  at::ScalarType compute;
  std::vector<at::ScalarType> outputs;
  WorkShape shape;
  int group_lanes;  // 1: no kernels with shared work
  bool wide_index;  // 64-bit

  // Elements of a vector; 1 for complex values. Vectors of indices, which are int, have as many.
  OUTBOARD_API int width() const;
};

// The norms of a list of tensors.
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

// Limits of kernel templates: dimensions of a tensor with sizes and strides, numbers of a list.
constexpr int kTemplateDimensions = 8;
constexpr int kTemplateList = 16;

// A program of a kernel template.
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

// Functions return OpenCL C and raise ValueError for an invalid definition. Any thread may call
// them, but not with a lock that a thread with the interpreter lock may wait for.
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
