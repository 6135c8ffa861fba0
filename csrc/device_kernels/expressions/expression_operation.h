// What the nodes of an expression do: for its parser, its check and its evaluation.
#pragma once

#include "device_kernels/expressions/expression.h"

namespace outboard {

// Name; how it is written, functions from `Numel` on; then as in OperationRow.
// clang-format off
#define OUTBOARD_OPERATIONS(OPERATION)                 \
  OPERATION(Number,       "number",       "",    "n")  \
  OPERATION(Text,         "text",         "",    "x")  \
  OPERATION(Slot,         "name",         "",    "a")  \
  OPERATION(List,         "[...]",        "n",   "l")  \
  OPERATION(Element,      "[]",           "ln",  "n")  \
  OPERATION(Slice,        "[:]",          "lnn", "l")  \
  OPERATION(Choose,       "?:",           "aaa", "23") \
  OPERATION(Or,           "||",           "aa",  "n")  \
  OPERATION(And,          "&&",           "aa",  "n")  \
  OPERATION(Not,          "!",            "a",   "n")  \
  OPERATION(Negate,       "-",            "n",   "n")  \
  OPERATION(Add,          "+",            "mm",  "12") \
  OPERATION(Subtract,     "-",            "nn",  "n")  \
  OPERATION(Multiply,     "*",            "nn",  "n")  \
  OPERATION(Divide,       "/",            "nn",  "n")  \
  OPERATION(FloorDivide,  "//",           "nn",  "n")  \
  OPERATION(Remainder,    "%",            "nn",  "n")  \
  OPERATION(Equal,        "==",           "aa",  "n")  \
  OPERATION(Unequal,      "!=",           "aa",  "n")  \
  OPERATION(Less,         "<",            "nn",  "n")  \
  OPERATION(LessEqual,    "<=",           "nn",  "n")  \
  OPERATION(Greater,      ">",            "nn",  "n")  \
  OPERATION(GreaterEqual, ">=",           "nn",  "n")  \
  OPERATION(Numel,        "numel",        "t",   "n")  \
  OPERATION(Dims,         "dims",         "t",   "n")  \
  OPERATION(Size,         "size",         "tn",  "n")  \
  OPERATION(Stride,       "stride",       "tn",  "n")  \
  OPERATION(Sizes,        "sizes",        "t",   "l")  \
  OPERATION(RowMajor,     "row_major",    "t",   "n")  \
  OPERATION(Bytes,        "bytes",        "t",   "n")  \
  OPERATION(Floating,     "floating",     "t",   "n")  \
  OPERATION(Given,        "given",        "a",   "n")  \
  OPERATION(Either,       "either",       "aa",  "12") \
  OPERATION(Len,          "len",          "l",   "n")  \
  OPERATION(Prod,         "prod",         "l",   "n")  \
  OPERATION(Sum,          "sum",          "l",   "n")  \
  OPERATION(Drop,         "drop",         "ln",  "l")  \
  OPERATION(Set,          "set",          "lnn", "l")  \
  OPERATION(Fill,         "fill",         "nn",  "l")  \
  OPERATION(Broadcast,    "broadcast",    "ll",  "l")  \
  OPERATION(Each,         "each",         "mn",  "l")  \
  OPERATION(Wrap,         "wrap",         "nn",  "n")  \
  OPERATION(Min,          "min",          "mn",  "1")  \
  OPERATION(Max,          "max",          "mn",  "1")  \
  OPERATION(Floor,        "floor",        "n",   "n")  \
  OPERATION(Ceil,         "ceil",         "n",   "n")  \
  OPERATION(Abs,          "abs",          "n",   "n")  \
  OPERATION(Log2Ceil,     "log2_ceil",    "n",   "n")  \
  OPERATION(Log1p,        "log1p",        "n",   "n")  \
  OPERATION(MinOf,        "min_of",       "l",   "n")  \
  OPERATION(MaxOf,        "max_of",       "l",   "n")  \
  OPERATION(PaddedSizes,  "padded_sizes", "ll",  "l")  \
  OPERATION(Real,         "real",         "n",   "n")
// clang-format on

enum class Expression::Operation : uint8_t {
#define OUTBOARD_NAME(name, ...) k##name,
  OUTBOARD_OPERATIONS(OUTBOARD_NAME)
#undef OUTBOARD_NAME
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
