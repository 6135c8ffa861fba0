#include "device_kernels/expressions/expression.h"

#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <functional>
#include <string_view>
#include <utility>

namespace outboard {

using Kind = ExpressionValue::Kind;
using List = ExpressionValue::List;
using Operation = ExpressionGraph::Operation;
using Operands = ExpressionOperands;
using Value = ExpressionValue;
using at::ScalarType;

// The operands of a node in an evaluation.
struct ExpressionOperands {
  Evaluation& evaluation;
  const ExpressionGraph::Node& node;

  const Value& operator[](size_t i) const { return evaluation.value(node.children[i]); }
  bool truth(size_t i) const { return (*this)[i].truth(); }
  const ExpressionNumber& number(size_t i) const { return (*this)[i].as_number(); }
  int64_t integer(size_t i) const { return number(i).as_integer(); }
  double real(size_t i) const { return number(i).as_real(); }
  const List& list(size_t i = 0) const { return (*this)[i].as_list(); }
  const at::Tensor& tensor() const { return (*this)[0].as_tensor(); }
};

namespace {

// More numbers than any tensor has dimensions or any kernel has parameters.
constexpr int64_t kLongestList = 1 << 16;

size_t length_of_list(int64_t length) {
  TORCH_CHECK_VALUE(length >= 0 && length <= kLongestList,
                    "an operator definition makes a list of ", length, " numbers; lists have 0 to ",
                    kLongestList);
  return static_cast<size_t>(length);
}

// Index in a list, counted from its end if negative.
size_t index_in(int64_t index, size_t size) {
  const int64_t from_start = index < 0 ? index + static_cast<int64_t>(size) : index;
  TORCH_CHECK_VALUE(from_start >= 0 && from_start < static_cast<int64_t>(size),
                    "an operator definition takes element ", index, " of a list of ", size);
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

ScalarType dtype_of(const c10::IValue& element) {
  if (element.isScalar()) return element.toScalar().type();
  const bool given = element.isTensor() && element.toTensor().defined();
  return given ? element.toTensor().scalar_type() : ScalarType::Undefined;
}

// Whether a condition holds for the dtype of a value, or of each tensor of a list.
template <class Condition>
bool each_dtype(const ExpressionValue& value, const Condition& holds) {
  if (value.kind != Kind::kTensors) return holds(value.scalar_type());
  return std::ranges::all_of(value.tensors->toListRef(), holds, dtype_of);
}

bool same_dtype(const ExpressionValue& a, const ExpressionValue& b) {
  if (a.kind == Kind::kTensors && b.kind == Kind::kTensors) {
    return std::ranges::equal(a.tensors->toListRef(), b.tensors->toListRef(), {}, dtype_of,
                              dtype_of);
  }
  if (a.kind == Kind::kTensors) return same_dtype(b, a);
  const ScalarType dtype = a.scalar_type();
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

// The lesser or the greater of two numbers, or of each number of a list and a number.
Value extreme(Operands x,
              const ExpressionNumber& (*of)(const ExpressionNumber&, const ExpressionNumber&)) {
  if (x[0].kind != Kind::kList) return of(x.number(0), x.number(1));
  List list = x.list();
  for (ExpressionNumber& element : list) element = of(element, x.number(1));
  return x.evaluation.stored(std::move(list));
}

const List& not_empty(const List& list) {
  TORCH_CHECK_VALUE(!list.empty(),
                    "an operator definition takes the minimum or maximum of an empty list");
  return list;
}

int64_t log2_ceil(const ExpressionNumber& number) {
  int64_t power = 0;
  while (power < 62 && number > ExpressionNumber(int64_t{1} << power)) ++power;
  TORCH_CHECK_VALUE(power < 62, "an operator definition takes log2_ceil of a number above 2^61");
  return power;
}

// The size or the stride of a dimension; a 0-d tensor has one dimension of size 1 here.
int64_t of_dimension(Operands x, at::IntArrayRef values) {
  const int64_t d = c10::maybe_wrap_dim(x.integer(1), x.tensor().dim());
  return values.empty() ? 1 : values[d];
}

Value list_of(Operands x, at::IntArrayRef values) {
  return x.evaluation.stored(List(values.begin(), values.end()));
}

const at::Tensor& tensor_at(Operands x) {
  static const at::Tensor undefined;
  const auto tensors = x[0].as_tensors().toListRef();
  int64_t index = x.integer(1);
  if (index < 0) index += static_cast<int64_t>(tensors.size());
  const auto i = static_cast<size_t>(index);  // of a negative number above every size
  return i < tensors.size() && tensors[i].isTensor() ? tensors[i].toTensor() : undefined;
}

Value given_each(Operands x) {
  List made;
  for (const c10::IValue& tensor : x[0].as_tensors().toListRef()) {
    made.push_back(tensor.isTensor() && tensor.toTensor().defined());
  }
  return x.evaluation.stored(std::move(made));
}

Value list(Operands x) {
  List made;
  for (size_t i = 0; i < x.node.children.size(); ++i) made.push_back(x.number(i));
  return x.evaluation.stored(std::move(made));
}

// Elements from operand 1 on, up to operand 2 if there is one.
Value slice(Operands x) {
  const auto size = static_cast<int64_t>(x.list().size());
  const auto bound = [&](size_t i) {
    const int64_t index = x.integer(i);
    return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
  };
  const int64_t first = bound(1);
  const int64_t last = x.node.children.size() < 3 ? size : std::max(bound(2), first);
  return x.evaluation.stored(List(x.list().begin() + first, x.list().begin() + last));
}

Value concat(Operands x) {
  List made = x.list();
  made.append(x.list(1).begin(), x.list(1).end());
  return x.evaluation.stored(std::move(made));
}

Value drop(Operands x) {
  List made = x.list();
  if (!made.empty()) made.erase(made.begin() + index_in(x.integer(1), made.size()));
  return x.evaluation.stored(std::move(made));
}

Value replace(Operands x) {
  List made = x.list();
  made[index_in(x.integer(1), made.size())] = x.number(2);
  return x.evaluation.stored(std::move(made));
}

Value expand(Operands x) {
  const bool single = x[0].kind == Kind::kNumber;
  const size_t count = length_of_list(x.integer(1));
  if (!single && x.list().size() == count) return x[0];
  TORCH_CHECK_VALUE(single || x.list().size() == 1,
                    "an operator definition needs one number or a list of ", count);
  return x.evaluation.stored(List(count, single ? x.number(0) : x.list()[0]));
}

Value padded(Operands x) {
  List made = x.list();
  const List& amounts = x.list(1);
  for (size_t i = 0; i < amounts.size(); ++i) {
    ExpressionNumber& size = made[index_in(-1 - static_cast<int64_t>(i / 2), made.size())];
    size = size + amounts[i];
  }
  TORCH_CHECK_VALUE(
      std::all_of(made.begin(), made.end(), [](const ExpressionNumber& size) { return size >= 0; }),
      "an operator definition pads a size below 0");
  return x.evaluation.stored(std::move(made));
}

Value has_dtype(Operands x) {
  const auto dtypes = static_cast<uint64_t>(x.integer(1));
  return each_dtype(x[0], [&](ScalarType dtype) {
    return dtype == ScalarType::Undefined || (dtypes >> static_cast<int>(dtype) & 1) != 0;
  });
}

Value as_dtype(Operands x) {
  return x[0].given() ? Value::of_dtype(static_cast<ScalarType>(x.integer(0))) : Value::none();
}

template <class Fold>
ExpressionNumber folded(const List& list, ExpressionNumber total, const Fold& fold) {
  for (const ExpressionNumber& element : list) total = fold(total, element);
  return total;
}

constexpr Operation kOperations[] = {
    {"none", 0, [](Operands) { return Value::none(); }},
    // A name that is not set: an argument that the overload lacks.
    {"name", 0, [](Operands) { return Value::none(); }},
    {"number", 0, [](Operands x) -> Value { return x.node.number; }},
    {"string", 0, [](Operands x) -> Value { return x.node.string; }},
    {"where", 3, [](Operands x) { return x[x.truth(0) ? 1 : 2]; }},
    {"or", 2, [](Operands x) -> Value { return x.truth(0) || x.truth(1); }},
    {"and", 2, [](Operands x) -> Value { return x.truth(0) && x.truth(1); }},
    {"not", 1, [](Operands x) -> Value { return !x.truth(0); }},
    {"eq", 2, [](Operands x) -> Value { return equal(x[0], x[1]); }},
    {"ne", 2, [](Operands x) -> Value { return !equal(x[0], x[1]); }},
    {"given", 1, [](Operands x) -> Value { return x[0].given(); }},
    {"either", 2, [](Operands x) { return x[0].given() ? x[0] : x[1]; }},
    {"has_dtype", 2, has_dtype},
    {"as_dtype", 1, as_dtype},
    {"same_dtype", 2, [](Operands x) -> Value { return same_dtype(x[0], x[1]); }},
    // Numbers.
    {"neg", 1, [](Operands x) -> Value { return -x.number(0); }},
    {"add", 2, [](Operands x) -> Value { return x.number(0) + x.number(1); }},
    {"sub", 2, [](Operands x) -> Value { return x.number(0) - x.number(1); }},
    {"mul", 2, [](Operands x) -> Value { return x.number(0) * x.number(1); }},
    {"truediv", 2, [](Operands x) -> Value { return x.number(0) / x.number(1); }},
    {"floordiv", 2, [](Operands x) -> Value { return x.number(0).floor_divide(x.number(1)); }},
    {"mod", 2, [](Operands x) -> Value { return x.number(0).remainder(x.number(1)); }},
    {"lt", 2, [](Operands x) -> Value { return x.number(0) < x.number(1); }},
    {"le", 2, [](Operands x) -> Value { return x.number(0) <= x.number(1); }},
    {"gt", 2, [](Operands x) -> Value { return x.number(0) > x.number(1); }},
    {"ge", 2, [](Operands x) -> Value { return x.number(0) >= x.number(1); }},
    {"minimum", 2, [](Operands x) { return extreme(x, std::min); }},
    {"maximum", 2, [](Operands x) { return extreme(x, std::max); }},
    {"floor", 1, [](Operands x) -> Value { return x.number(0).floor(); }},
    {"ceil", 1, [](Operands x) -> Value { return x.number(0).ceil(); }},
    {"abs", 1, [](Operands x) -> Value { return x.number(0).abs(); }},
    {"float", 1, [](Operands x) -> Value { return x.real(0); }},
    {"int", 1, [](Operands x) -> Value { return x.integer(0); }},
    {"log", 1, [](Operands x) -> Value { return std::log(x.real(0)); }},
    {"log1p", 1, [](Operands x) -> Value { return std::log1p(x.real(0)); }},
    {"log2_ceil", 1, [](Operands x) -> Value { return log2_ceil(x.number(0)); }},
    {"wrap", 2,
     [](Operands x) -> Value { return c10::maybe_wrap_dim(x.integer(0), x.integer(1)); }},
    // Tensors.
    {"numel", 1, [](Operands x) -> Value { return x.tensor().numel(); }},
    {"dim", 1, [](Operands x) -> Value { return x.tensor().dim(); }},
    {"size", 2, [](Operands x) -> Value { return of_dimension(x, x.tensor().sizes()); }},
    {"stride", 2, [](Operands x) -> Value { return of_dimension(x, x.tensor().strides()); }},
    {"shape", 1, [](Operands x) { return list_of(x, x.tensor().sizes()); }},
    {"is_contiguous", 1, [](Operands x) -> Value { return x.tensor().is_contiguous(); }},
    {"element_size", 1,
     [](Operands x) -> Value { return static_cast<int64_t>(x.tensor().element_size()); }},
    {"is_floating_point", 1, [](Operands x) -> Value { return x.tensor().is_floating_point(); }},
    {"tensor", 2, [](Operands x) -> Value { return tensor_at(x); }},
    {"given_each", 1, given_each},
    // Lists.
    {"list", -1, list},
    {"element", 2,
     [](Operands x) -> Value { return x.list()[index_in(x.integer(1), x.list().size())]; }},
    {"len", 1, [](Operands x) -> Value { return static_cast<int64_t>(x.list().size()); }},
    {"prod", 1, [](Operands x) -> Value { return folded(x.list(), 1, std::multiplies<>()); }},
    {"sum", 1, [](Operands x) -> Value { return folded(x.list(), 0, std::plus<>()); }},
    {"min", 1, [](Operands x) -> Value { return std::ranges::min(not_empty(x.list())); }},
    {"max", 1, [](Operands x) -> Value { return std::ranges::max(not_empty(x.list())); }},
    {"distinct", 2, [](Operands x) -> Value { return are_distinct(x.list(), x.integer(1)); }},
    {"slice", 3, slice},
    {"tail", 2, slice},
    {"concat", 2, concat},
    {"drop", 2, drop},
    {"replace", 3, replace},
    {"expand", 2, expand},
    {"broadcast", 2,
     [](Operands x) {
       const auto sizes = [&](size_t i) { return x.evaluation.sizes(x.node.children[i]); };
       return list_of(x, at::infer_size_dimvector(sizes(0), sizes(1)));
     }},
    {"padded", 2, padded},
};

}  // namespace

void ExpressionGraph::add(const std::string& operation, const std::vector<int64_t>& children,
                          ExpressionNumber number, std::string string) {
  const auto* const found =
      std::find_if(std::begin(kOperations), std::end(kOperations),
                   [&](const Operation& known) { return known.name == operation; });
  TORCH_CHECK_VALUE(found != std::end(kOperations), "there is no operation '", operation, "'");
  TORCH_CHECK_VALUE(found->children < 0 || static_cast<size_t>(found->children) == children.size(),
                    "the operation '", operation, "' takes ", found->children, " nodes, and not ",
                    children.size());
  Node node{found, {}, number, std::move(string)};
  for (const int64_t child : children) node.children.push_back(checked(child));
  nodes_.push_back(std::move(node));
}

int ExpressionGraph::checked(int64_t index) const {
  TORCH_CHECK_VALUE(index >= 0 && index < size(), "there is no node ", index);
  return static_cast<int>(index);
}

const std::string* ExpressionGraph::name(int index) const {
  const Node& node = nodes_[index];
  return std::string_view(node.operation->name) == "name" ? &node.string : nullptr;
}

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
  if (value.kind == Kind::kUnknown) {
    const ExpressionGraph::Node& node = graph_.node(index);
    value = node.operation->compute({*this, node});
  }
  return value;
}

}  // namespace outboard
