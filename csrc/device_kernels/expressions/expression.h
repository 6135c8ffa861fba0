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

struct ExpressionOperands;

class OUTBOARD_API ExpressionGraph {
 public:
  struct Operation {
    const char* name;  // in Python
    int children;      // -1: any number
    ExpressionValue (*compute)(ExpressionOperands operands);
  };
  struct Node {
    const Operation* operation;
    c10::SmallVector<int, 4> children;
    ExpressionNumber number;
    std::string string;  // of strings and names
  };

  // Appends a node. Its children must have been added. Raises ValueError for an unknown operation
  // and for unknown, too many or too few children.
  void add(const std::string& operation, const std::vector<int64_t>& children,
           ExpressionNumber number, std::string string);
  const Node& node(int index) const { return nodes_[index]; }
  int size() const { return static_cast<int>(nodes_.size()); }
  // The index. Raises ValueError if there is no such node.
  int checked(int64_t index) const;
  // The name that a node stands for, whose value is set; nullptr for other nodes.
  const std::string* name(int index) const;

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
  void set(int node, at::ScalarType dtype) { values_[node] = ExpressionValue::of_dtype(dtype); }

  // These raise ValueError for values that do not fit, and IndexError as PyTorch does.
  const ExpressionValue& value(int node);
  const ExpressionNumber& number(int node) { return value(node).as_number(); }
  int64_t integer(int node) { return number(node).as_integer(); }
  const List& list(int node) { return value(node).as_list(); }
  at::DimVector sizes(int node);
  bool truth(int node) { return value(node).truth(); }

  // A value that refers to a list of this evaluation.
  ExpressionValue stored(List list);

 private:
  const ExpressionGraph& graph_;
  c10::SmallVector<ExpressionValue, 48> values_;
  std::forward_list<List> lists_;
};

}  // namespace outboard
