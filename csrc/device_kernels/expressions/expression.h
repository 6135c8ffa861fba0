// Expressions over the arguments of a call, with which rows describe sizes, counts and conditions.
//
//   d = wrap(dim, dims(self))
//   drop(sizes(self), d)
//   training ? size(self, 1) : 0
//   mode == "mean" && given(weight)
//
// docs/rows.md is the reference: values, operators and functions, each with an example. Numbers:
// device_kernels/expressions/expression_number.h.
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
