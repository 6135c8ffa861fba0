// Expressions of operator definitions: conditions, sizes, parameters and launches of a call.
//
// torch_outboard/ops/symbolic.py records a function in Python as a graph, once. Evaluation computes
// the nodes that a call needs, each at most once.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <forward_list>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/expressions/expression_value.h"
#include "runtime/export.h"

namespace outboard {

// Operations: name, name in Python, number of operands; -1: any number.
// clang-format off
#define OUTBOARD_OPERATIONS(OPERATION)                                                            \
  OPERATION(None, "none", 0)                   OPERATION(Number, "number", 0)                     \
  OPERATION(String, "string", 0)               OPERATION(Name, "name", 0)                         \
  OPERATION(List, "list", -1)                  OPERATION(Element, "element", 2)                   \
  OPERATION(Slice, "slice", 3)                 OPERATION(Tail, "tail", 2)                         \
  OPERATION(Concat, "concat", 2)               OPERATION(Where, "where", 3)                       \
  OPERATION(Or, "or", 2)                       OPERATION(And, "and", 2)                           \
  OPERATION(Not, "not", 1)                     OPERATION(Negate, "neg", 1)                        \
  OPERATION(Add, "add", 2)                     OPERATION(Subtract, "sub", 2)                      \
  OPERATION(Multiply, "mul", 2)                OPERATION(Divide, "truediv", 2)                    \
  OPERATION(FloorDivide, "floordiv", 2)        OPERATION(Remainder, "mod", 2)                     \
  OPERATION(Equal, "eq", 2)                    OPERATION(Unequal, "ne", 2)                        \
  OPERATION(Less, "lt", 2)                     OPERATION(LessEqual, "le", 2)                      \
  OPERATION(Greater, "gt", 2)                  OPERATION(GreaterEqual, "ge", 2)                   \
  OPERATION(Minimum, "minimum", 2)             OPERATION(Maximum, "maximum", 2)                   \
  OPERATION(Floor, "floor", 1)                 OPERATION(Ceil, "ceil", 1)                         \
  OPERATION(Abs, "abs", 1)                     OPERATION(Float, "float", 1)                       \
  OPERATION(Int, "int", 1)                     OPERATION(Log, "log", 1)                           \
  OPERATION(Log1p, "log1p", 1)                 OPERATION(Log2Ceil, "log2_ceil", 1)                \
  OPERATION(Given, "given", 1)                 OPERATION(Either, "either", 2)                     \
  OPERATION(Numel, "numel", 1)                 OPERATION(Dim, "dim", 1)                           \
  OPERATION(Size, "size", 2)                   OPERATION(Stride, "stride", 2)                     \
  OPERATION(Shape, "shape", 1)                 OPERATION(IsContiguous, "is_contiguous", 1)        \
  OPERATION(ElementSize, "element_size", 1)    OPERATION(IsFloatingPoint, "is_floating_point", 1) \
  OPERATION(HasDtype, "has_dtype", 2)          OPERATION(AsDtype, "as_dtype", 1)                  \
  OPERATION(SameDtype, "same_dtype", 2)        OPERATION(Tensor, "tensor", 2)                     \
  OPERATION(GivenEach, "given_each", 1)        OPERATION(Len, "len", 1)                           \
  OPERATION(Prod, "prod", 1)                   OPERATION(Sum, "sum", 1)                           \
  OPERATION(Min, "min", 1)                     OPERATION(Max, "max", 1)                           \
  OPERATION(Drop, "drop", 2)                   OPERATION(Replace, "replace", 3)                   \
  OPERATION(Full, "full", 2)                   OPERATION(Expand, "expand", 2)                     \
  OPERATION(Broadcast, "broadcast", 2)         OPERATION(Padded, "padded", 2)                     \
  OPERATION(Wrap, "wrap", 2)                   OPERATION(Distinct, "distinct", 2)
// clang-format on

class OUTBOARD_API ExpressionGraph {
 public:
  enum class Operation : uint8_t {
#define OUTBOARD_NAME(name, ...) k##name,
    OUTBOARD_OPERATIONS(OUTBOARD_NAME)
#undef OUTBOARD_NAME
  };
  struct Node {
    Operation operation = Operation::kNone;
    c10::SmallVector<int, 4> children;
    ExpressionNumber number;
    std::string text;  // of strings and names
  };

  // Appends a node. Its children must have been added. Raises ValueError for an unknown operation
  // and for unknown, too many or too few children.
  void add(const std::string& operation, const std::vector<int64_t>& children,
           ExpressionNumber number, std::string text);
  const Node& node(int index) const { return nodes_[index]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  // The index. Raises ValueError if there is no such node.
  int checked(int64_t index) const;

 private:
  std::vector<Node> nodes_;
};

// The values of a graph's nodes for one call.
class OUTBOARD_API Evaluation {
 public:
  using Kind = ExpressionValue::Kind;
  using List = ExpressionValue::List;

  explicit Evaluation(const ExpressionGraph& graph) : graph_(graph), values_(graph.size()) {}

  // Sets the value of a name. It must outlive the evaluation.
  void set(int node, const c10::IValue& argument);
  void set(int node, const at::Tensor& tensor) { values_[node] = tensor; }
  void set(int node, ExpressionNumber number) { values_[node] = number; }

  // These raise ValueError for values that do not fit, and IndexError as PyTorch does.
  const ExpressionValue& value(int node);
  const ExpressionNumber& number(int node) { return value(node).as_number(); }
  int64_t integer(int node) { return number(node).as_integer(); }
  const List& list(int node) { return value(node).as_list(); }
  at::DimVector sizes(int node);
  bool truth(int node) { return value(node).truth(); }

 private:
  using Node = ExpressionGraph::Node;
  ExpressionValue compute(const Node& node);
  ExpressionValue compute_number(const Node& node);
  ExpressionValue compute_of_tensor(const Node& node);
  ExpressionValue compute_of_list(const Node& node);
  ExpressionValue compute_list(const Node& node);
  // A value that refers to a list of this evaluation.
  ExpressionValue stored(List list);

  const ExpressionGraph& graph_;
  c10::SmallVector<ExpressionValue, 48> values_;
  std::forward_list<List> lists_;
};

}  // namespace outboard
