// What the nodes of an expression do: for its parser, its check and its evaluation.
#pragma once

#include "device_kernels/expressions/expression.h"

namespace outboard {

enum class Expression::Operation : uint8_t {
  kNumber,
  kText,
  kSlot,
  kList,
  kElement,
  kSlice,
  kChoose,
  kOr,
  kAnd,
  kNot,
  kNegate,
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kRemainder,
  kEqual,
  kUnequal,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kNumel,
  kDims,
  kSize,
  kStride,
  kSizes,
  kBytes,
  kFloating,
  kGiven,
  kEither,
  kLen,
  kProd,
  kSum,
  kDrop,
  kSet,
  kInsert,
  kFill,
  kBroadcast,
  kEach,
  kWrap,
  kMin,
  kMax,
  kFloor,
  kCeil,
  kAbs,
  kLog2Ceil,
  kLog1p,
  kMinOf,
  kMaxOf,
  kPaddedSizes,
  kReal,
};

struct Expression::OperationRow {
  Operation operation;
  const char* name;  // as it is written
  // The kinds of its arguments, a letter each, or of all where it takes any number: number, list,
  // tensor, m for a number or a list, anything.
  const char* takes;
  // The kind of its value, or 1, 2, 3 for the kinds of these arguments: "n", "23".
  const char* gives;
};

}  // namespace outboard
