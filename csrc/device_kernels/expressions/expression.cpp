#include "device_kernels/expressions/expression.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <utility>

namespace outboard {

using Kind = ExpressionValue::Kind;
using List = ExpressionValue::List;
using Operation = ExpressionGraph::Operation;
using at::ScalarType;

void ExpressionGraph::add(const std::string& operation, const std::vector<int64_t>& children,
                          ExpressionNumber number, std::string text) {
  struct Described {
    const char* name;
    int children;
  };
  static constexpr Described known[] = {
#define OUTBOARD_NAME(name, written, children) {written, children},
      OUTBOARD_OPERATIONS(OUTBOARD_NAME)
#undef OUTBOARD_NAME
  };
  const auto* const found =
      std::find_if(std::begin(known), std::end(known),
                   [&](const Described& described) { return described.name == operation; });
  TORCH_CHECK_VALUE(found != std::end(known), "there is no operation '", operation, "'");
  TORCH_CHECK_VALUE(found->children < 0 || static_cast<size_t>(found->children) == children.size(),
                    "the operation '", operation, "' takes ", found->children, " nodes, and not ",
                    children.size());
  Node node;
  node.operation = static_cast<Operation>(found - std::begin(known));
  for (const int64_t child : children) node.children.push_back(checked(child));
  node.number = number;
  node.text = std::move(text);
  nodes_.push_back(std::move(node));
}

int ExpressionGraph::checked(int64_t index) const {
  TORCH_CHECK_VALUE(index >= 0 && index < size(), "there is no node ", index);
  return static_cast<int>(index);
}

namespace {

// More numbers than any tensor has dimensions or any kernel has parameters.
constexpr int64_t kLongestList = 1 << 16;

size_t length_of_list(int64_t length) {
  TORCH_CHECK_VALUE(length >= 0 && length <= kLongestList,
                    "an operator definition asks for a list of ", length, " numbers");
  return static_cast<size_t>(length);
}

// Index in a list, counted from its end if negative.
size_t index_in(int64_t index, size_t size) {
  const int64_t from_start = index < 0 ? index + static_cast<int64_t>(size) : index;
  TORCH_CHECK_VALUE(from_start >= 0 && from_start < static_cast<int64_t>(size),
                    "an operator definition asks for element ", index, " of a list of ", size);
  return static_cast<size_t>(from_start);
}

bool equal(const ExpressionValue& a, const ExpressionValue& b) {
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kNumber:
      return a.number == b.number;
    case Kind::kList:
      return *a.list == *b.list;
    case Kind::kString:
      return *a.string == *b.string;
    case Kind::kTensor:
      return a.tensor->is_same(*b.tensor);
    default:
      return a.kind == Kind::kNone;
  }
}

// The dtype of a tensor or a number; Undefined for an argument that is not given.
ScalarType dtype_of(const ExpressionValue& value) {
  const bool tensor = value.kind == Kind::kTensor && value.tensor->defined();
  return tensor ? value.tensor->scalar_type() : value.dtype;
}

ScalarType dtype_of(const c10::IValue& element) {
  const bool given = element.isTensor() && element.toTensor().defined();
  return given ? element.toTensor().scalar_type() : ScalarType::Undefined;
}

// Whether a condition holds for the dtype of a value, or of each tensor of a list.
template <class Condition>
bool each_dtype(const ExpressionValue& value, const Condition& holds) {
  if (value.kind != Kind::kTensors) return holds(dtype_of(value));
  const auto elements = value.tensors->toListRef();
  return std::all_of(elements.begin(), elements.end(),
                     [&](const c10::IValue& element) { return holds(dtype_of(element)); });
}

bool same_dtype(const ExpressionValue& a, const ExpressionValue& b) {
  if (a.kind == Kind::kTensors && b.kind == Kind::kTensors) {
    const auto ones = a.tensors->toListRef();
    const auto others = b.tensors->toListRef();
    return std::equal(ones.begin(), ones.end(), others.begin(), others.end(),
                      [](const c10::IValue& one, const c10::IValue& other) {
                        return dtype_of(one) == dtype_of(other);
                      });
  }
  if (a.kind == Kind::kTensors) return same_dtype(b, a);
  const ScalarType dtype = dtype_of(a);
  return each_dtype(b, [&](ScalarType other) {
    return dtype == ScalarType::Undefined || other == ScalarType::Undefined || dtype == other;
  });
}

// True if dimensions are in range and differ.
bool are_distinct(const List& dimensions, int64_t count) {
  std::bitset<64> seen;
  for (const ExpressionNumber& dimension : dimensions) {
    int64_t d = dimension.as_integer();
    if (d < 0) d += count;
    if (d < 0 || d >= count || d >= 64 || seen[static_cast<size_t>(d)]) return false;
    seen.set(static_cast<size_t>(d));
  }
  return true;
}

}  // namespace

void Evaluation::set(int node, const c10::IValue& argument) {
  if (!argument.isIntList() && !argument.isDoubleList() && !argument.isBoolList()) {
    values_[node] = ExpressionValue::of_argument(argument);
    return;
  }
  List list;
  for (const c10::IValue& element : argument.toListRef()) {
    list.push_back(element.isInt()    ? ExpressionNumber(element.toInt())
                   : element.isBool() ? ExpressionNumber(element.toBool())
                                      : ExpressionNumber(element.toDouble()));
  }
  values_[node] = stored(std::move(list));
}

ExpressionValue Evaluation::stored(List list) {
  lists_.push_front(std::move(list));
  return lists_.front();
}

at::DimVector Evaluation::sizes(int node) {
  at::DimVector sizes;
  for (const ExpressionNumber& element : list(node)) sizes.push_back(element.as_integer());
  return sizes;
}

const ExpressionValue& Evaluation::value(int index) {
  ExpressionValue& value = values_[index];
  if (value.kind == Kind::kUnknown) value = compute(graph_.node(index));
  return value;
}

ExpressionValue Evaluation::compute(const Node& node) {
  const auto child = [&](size_t i) -> const ExpressionValue& { return value(node.children[i]); };
  switch (node.operation) {
    case Operation::kNone:
    case Operation::kName:  // an argument that the overload lacks
      return ExpressionValue::none();
    case Operation::kNumber:
      return node.number;
    case Operation::kString:
      return node.text;
    case Operation::kWhere:
      return child(child(0).truth() ? 1 : 2);
    case Operation::kOr:
      return child(0).truth() || child(1).truth();
    case Operation::kAnd:
      return child(0).truth() && child(1).truth();
    case Operation::kNot:
      return !child(0).truth();
    case Operation::kEqual:
      return equal(child(0), child(1));
    case Operation::kUnequal:
      return !equal(child(0), child(1));
    case Operation::kGiven:
      return child(0).given();
    case Operation::kEither:
      return child(0).given() ? child(0) : child(1);
    case Operation::kHasDtype: {
      const auto dtypes = static_cast<uint64_t>(integer(node.children[1]));
      return each_dtype(child(0), [&](ScalarType dtype) {
        return dtype == ScalarType::Undefined || (dtypes >> static_cast<int>(dtype) & 1) != 0;
      });
    }
    case Operation::kAsDtype: {
      ExpressionValue dtype = ExpressionValue::none();
      if (child(0).given()) dtype.dtype = static_cast<ScalarType>(integer(node.children[0]));
      return dtype;
    }
    case Operation::kSameDtype:
      return same_dtype(child(0), child(1));
    default:
      break;
  }
  if (node.operation >= Operation::kNegate && node.operation <= Operation::kLog2Ceil) {
    return compute_number(node);
  }
  if (node.operation >= Operation::kNumel && node.operation <= Operation::kIsFloatingPoint) {
    return compute_of_tensor(node);
  }
  return compute_of_list(node);
}

ExpressionValue Evaluation::compute_number(const Node& node) {
  const auto operand = [&](size_t i) -> const ExpressionNumber& {
    return number(node.children[i]);
  };
  switch (node.operation) {
    case Operation::kNegate:
      return -operand(0);
    case Operation::kAdd:
      return operand(0) + operand(1);
    case Operation::kSubtract:
      return operand(0) - operand(1);
    case Operation::kMultiply:
      return operand(0) * operand(1);
    case Operation::kDivide:
      return operand(0) / operand(1);
    case Operation::kFloorDivide:
      return operand(0).floor_divide(operand(1));
    case Operation::kRemainder:
      return operand(0).remainder(operand(1));
    case Operation::kLess:
      return operand(0) < operand(1);
    case Operation::kLessEqual:
      return operand(0) <= operand(1);
    case Operation::kGreater:
      return operand(0) > operand(1);
    case Operation::kGreaterEqual:
      return operand(0) >= operand(1);
    case Operation::kMinimum:
    case Operation::kMaximum: {
      const auto extreme = [&](const ExpressionNumber& a, const ExpressionNumber& b) {
        return node.operation == Operation::kMinimum ? std::min(a, b) : std::max(a, b);
      };
      const ExpressionValue& first = value(node.children[0]);
      if (first.kind != Kind::kList) return extreme(operand(0), operand(1));
      List list = first.as_list();
      for (ExpressionNumber& element : list) element = extreme(element, operand(1));
      return stored(std::move(list));
    }
    case Operation::kFloor:
      return operand(0).floor();
    case Operation::kCeil:
      return operand(0).ceil();
    case Operation::kAbs:
      return operand(0).abs();
    case Operation::kFloat:
      return operand(0).as_real();
    case Operation::kInt:
      return operand(0).as_integer();
    case Operation::kLog:
      return std::log(operand(0).as_real());
    case Operation::kLog1p:
      return std::log1p(operand(0).as_real());
    case Operation::kLog2Ceil: {
      int64_t power = 0;
      while (power < 62 && operand(0) > ExpressionNumber(int64_t{1} << power)) ++power;
      TORCH_CHECK_VALUE(power < 62, "an operator definition has a large logarithm");
      return power;
    }
    default:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "an operation of numbers is unknown");
}

ExpressionValue Evaluation::compute_of_tensor(const Node& node) {
  const at::Tensor& tensor = value(node.children[0]).as_tensor();
  switch (node.operation) {
    case Operation::kNumel:
      return tensor.numel();
    case Operation::kDim:
      return tensor.dim();
    case Operation::kSize:
    case Operation::kStride: {
      const int64_t d = c10::maybe_wrap_dim(integer(node.children[1]), tensor.dim());
      // A 0-d tensor has one dimension of size 1 here.
      if (tensor.dim() == 0) return int64_t{1};
      return node.operation == Operation::kSize ? tensor.size(d) : tensor.stride(d);
    }
    case Operation::kShape: {
      List list;
      for (const int64_t size : tensor.sizes()) list.push_back(size);
      return stored(std::move(list));
    }
    case Operation::kIsContiguous:
      return tensor.is_contiguous();
    case Operation::kElementSize:
      return static_cast<int64_t>(tensor.element_size());
    case Operation::kIsFloatingPoint:
      return at::isFloatingType(tensor.scalar_type());
    default:
      break;
  }
  TORCH_INTERNAL_ASSERT(false, "an operation of tensors is unknown");
}

// Operations on lists whose value is no list.
ExpressionValue Evaluation::compute_of_list(const Node& node) {
  const auto elements = [&]() -> const List& { return list(node.children[0]); };
  const auto extreme = [&](auto find) {
    TORCH_CHECK_VALUE(!elements().empty(),
                      "an operator definition wants the extreme of an empty list");
    return *find(elements().begin(), elements().end());
  };
  switch (node.operation) {
    case Operation::kTensor: {
      static const at::Tensor undefined;
      const auto tensors = value(node.children[0]).as_tensors().toListRef();
      int64_t index = integer(node.children[1]);
      if (index < 0) index += static_cast<int64_t>(tensors.size());
      const auto i = static_cast<size_t>(index);  // of a negative number above every size
      return i < tensors.size() && tensors[i].isTensor() ? tensors[i].toTensor() : undefined;
    }
    case Operation::kElement:
      return elements()[index_in(integer(node.children[1]), elements().size())];
    case Operation::kLen:
      return static_cast<int64_t>(elements().size());
    case Operation::kProd: {
      ExpressionNumber product = 1;
      for (const ExpressionNumber& element : elements()) product = product * element;
      return product;
    }
    case Operation::kSum: {
      ExpressionNumber sum = 0;
      for (const ExpressionNumber& element : elements()) sum = sum + element;
      return sum;
    }
    case Operation::kMin:
      return extreme([](auto begin, auto end) { return std::min_element(begin, end); });
    case Operation::kMax:
      return extreme([](auto begin, auto end) { return std::max_element(begin, end); });
    case Operation::kWrap:
      return c10::maybe_wrap_dim(integer(node.children[0]), integer(node.children[1]));
    case Operation::kDistinct:
      return are_distinct(elements(), integer(node.children[1]));
    default:
      return compute_list(node);
  }
}

ExpressionValue Evaluation::compute_list(const Node& node) {
  const auto elements = [&]() -> const List& { return list(node.children[0]); };
  List made;
  switch (node.operation) {
    case Operation::kList:
      for (const int child : node.children) made.push_back(number(child));
      break;
    case Operation::kSlice:
    case Operation::kTail: {
      const auto size = static_cast<int64_t>(elements().size());
      const auto bound = [&](size_t i) {
        const int64_t index = integer(node.children[i]);
        return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
      };
      const int64_t first = bound(1);
      const int64_t last = node.operation == Operation::kTail ? size : std::max(bound(2), first);
      made.append(elements().begin() + first, elements().begin() + last);
      break;
    }
    case Operation::kConcat:
      made = elements();
      made.append(list(node.children[1]).begin(), list(node.children[1]).end());
      break;
    case Operation::kGivenEach:
      for (const c10::IValue& tensor : value(node.children[0]).as_tensors().toListRef()) {
        made.push_back(tensor.isTensor() && tensor.toTensor().defined());
      }
      break;
    case Operation::kDrop:
      made = elements();
      if (made.empty()) break;  // the sizes of a 0-d tensor
      made.erase(made.begin() + index_in(integer(node.children[1]), made.size()));
      break;
    case Operation::kReplace:
      made = elements();
      made[index_in(integer(node.children[1]), made.size())] = number(node.children[2]);
      break;
    case Operation::kFull:
      made = List(length_of_list(integer(node.children[1])), number(node.children[0]));
      break;
    case Operation::kExpand: {
      const ExpressionValue& given = value(node.children[0]);
      const size_t count = length_of_list(integer(node.children[1]));
      if (given.kind != Kind::kNumber && given.as_list().size() == count) return given;
      TORCH_CHECK_VALUE(given.kind == Kind::kNumber || given.as_list().size() == 1,
                        "an operator definition needs a list of ", count);
      made = List(count, given.kind == Kind::kNumber ? given.number : given.as_list()[0]);
      break;
    }
    case Operation::kBroadcast:
      for (const int64_t size :
           at::infer_size_dimvector(sizes(node.children[0]), sizes(node.children[1]))) {
        made.push_back(size);
      }
      break;
    case Operation::kPadded: {
      made = elements();
      const List& amounts = list(node.children[1]);
      for (size_t i = 0; i < amounts.size(); ++i) {
        ExpressionNumber& size = made[index_in(-1 - static_cast<int64_t>(i / 2), made.size())];
        size = size + amounts[i];
      }
      TORCH_CHECK_VALUE(std::all_of(made.begin(), made.end(),
                                    [](const ExpressionNumber& size) { return size >= 0; }),
                        "an operator definition has a negative size");
      break;
    }
    default:
      TORCH_INTERNAL_ASSERT(false, "an operation of lists is unknown");
  }
  return stored(std::move(made));
}

}  // namespace outboard
