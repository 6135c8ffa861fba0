// Expressions over the arguments of a call, with which rows describe sizes, counts and conditions.
//
//   d = wrap(dim, dims(self))
//   drop(sizes(self), d)
//   training ? size(self, 1) : 0
//   mode == "mean" && given(weight)
//
// Values are numbers (also flags), lists of numbers, texts, tensors and none. Numbers are integers
// or reals (device_kernels/expressions/expression_number.h): what integers of 64 bits cannot hold
// raises. Operators are those of C with their precedence, the loosest first:
//
//   ? :
//   ||
//   &&
//   == != < <= > >=
//   + -              + joins lists
//   * / // %         `/` divides reals, `//` rounds down
//   ! -              of one value
//   [a, b]  l[i]  l[a:b]
//                    a list, an element (also from its end, with negative places), a part of one
//
// Names, functions, numbers of arguments and kinds of values are checked when an expression is
// made, as far as the kinds are known before a call. Functions:
//
//   numel(t) dims(t) size(t, d) stride(t, d) sizes(t) bytes(t) floating(t)   of tensors
//   given(v): not none and not undefined; either(v, w): v if it is given, else w
//   len(l) prod(l) sum(l) drop(l, i) set(l, i, v) insert(l, i, v) fill(v, n)  of lists
//   broadcast(l, m): the sizes to which both lists of sizes broadcast; raises as PyTorch does
//   each(v, n): the list v, or n times its only element or the number v
//   wrap(d, n): a dimension counted from the end becomes one counted from the start; another one
//               raises as PyTorch does
//   min_of(l) max_of(l): of a list
//   padded_sizes(l, amounts): sizes with amounts before and after, two per size from the last one
//   min(a, b) max(a, b): where a is a list, of each of its elements
//   floor(x) ceil(x) abs(x) log1p(x) log2_ceil(n)
//   real(x): the nearest real
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <functional>
#include <string>
#include <vector>

#include "device_kernels/expressions/expression_number.h"
#include "runtime/export.h"

namespace outboard {

struct OUTBOARD_API ExpressionValue {
  enum class Kind : uint8_t { kNone, kNumber, kList, kText, kTensor };
  using List = c10::SmallVector<ExpressionNumber, 6>;

  Kind kind = Kind::kNone;
  ExpressionNumber number;
  List list;
  const std::string* text = nullptr;
  const at::Tensor* tensor = nullptr;  // may be undefined

  static ExpressionValue of(ExpressionNumber number);
  static ExpressionValue of(double number) { return of(ExpressionNumber(number)); }
  static ExpressionValue of(int64_t number) { return of(ExpressionNumber(number)); }
  static ExpressionValue of(bool flag) { return of(ExpressionNumber(flag)); }
  static ExpressionValue of(List list);
  static ExpressionValue of(const at::Tensor& tensor);
  // Of an argument: numbers, flags, dtypes (by number), texts, lists of these, tensors, None. A
  // list of tensors becomes one of flags: which of them are given. Anything else is none. The
  // argument must outlive the value.
  static ExpressionValue of(const c10::IValue& argument);

  bool truth() const;
  // Raise ValueError for a value of another kind.
  const ExpressionNumber& as_number() const;
  int64_t as_integer() const { return as_number().as_integer(); }
  const List& as_list() const;
  at::DimVector as_sizes() const;
};

// The kinds that a value may have before a call says which: bits 1 << kind.
class ExpressionKinds {
 public:
  using Kind = ExpressionValue::Kind;
  constexpr ExpressionKinds(Kind kind) : bits_(uint8_t{1} << static_cast<int>(kind)) {}
  static constexpr ExpressionKinds any() { return ExpressionKinds(uint8_t{0xff}); }
  // Of an argument of an operator, as ExpressionValue::of makes it a value.
  OUTBOARD_API static ExpressionKinds of(const c10::Argument& argument);

  constexpr bool has(Kind kind) const { return (*this & kind).bits_ != 0; }
  constexpr bool none() const { return bits_ == 0; }
  constexpr bool operator==(const ExpressionKinds& other) const = default;
  constexpr ExpressionKinds operator|(ExpressionKinds o) const {
    return {uint8_t(bits_ | o.bits_)};
  }
  constexpr ExpressionKinds operator&(ExpressionKinds o) const {
    return {uint8_t(bits_ & o.bits_)};
  }

 private:
  constexpr ExpressionKinds(uint8_t bits) : bits_(bits) {}
  uint8_t bits_;
};

// A parsed expression. Names stand for slots, which the caller numbers. Expressions of one text
// share what was parsed.
class OUTBOARD_API Expression {
 public:
  struct Slot {
    Slot(int index, ExpressionKinds kinds = ExpressionKinds::any()) : index(index), kinds(kinds) {}
    int index;
    ExpressionKinds kinds;
  };
  // Slot of a name; raises for an unknown one.
  using Slots = std::function<Slot(const std::string& name)>;

  Expression() = default;
  // Raises ValueError where the text is no expression, and where a value is needed of a kind that
  // it cannot have: in the expression, or of the expression itself, which is to have one of
  // `kinds`.
  Expression(const std::string& text, const Slots& slots,
             ExpressionKinds kinds = ExpressionKinds::any());

  bool empty() const noexcept { return parsed_ == nullptr; }
  ExpressionKinds kinds() const noexcept { return kinds_; }
  // `values` has a value per slot. Raises ValueError for values that do not fit.
  ExpressionValue evaluate(const std::vector<ExpressionValue>& values) const;

 private:
  friend class ExpressionParser;
  enum class Operation : uint8_t;
  struct OperationRow;
  struct Node {
    Operation operation;
    int name = -1;  // of names
    ExpressionNumber number;
    std::string text;
    c10::SmallVector<int, 4> children;  // -1: left out, in slices
  };
  struct Parsed {
    std::string source;
    std::vector<Node> nodes;  // the root is the last one
    std::vector<std::string> names;
  };
  static const OperationRow* find_operation(const std::string& function);
  static const OperationRow& row_of(Operation operation);
  // Parses a text at its first use. What it returns lives for ever.
  static const Parsed* parse(const std::string& text);
  // The kinds of a node's values.
  ExpressionKinds check(int node, const std::vector<Slot>& slots) const;
  ExpressionValue evaluate(int node, const std::vector<ExpressionValue>& values) const;
  ExpressionValue call(const Node& node, const std::vector<ExpressionValue>& values) const;

  const Parsed* parsed_ = nullptr;
  c10::SmallVector<int, 4> slots_;  // of the names
  ExpressionKinds kinds_ = ExpressionKinds::any();
};

}  // namespace outboard
