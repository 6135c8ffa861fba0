#include "device_kernels/rows/requirements.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <string_view>

#include "device_kernels/rows/dtype_names.h"
#include "device_kernels/expressions/expression_number.h"
#include "device_kernels/kernel_types.h"

namespace outboard {
namespace {

constexpr std::string_view kAtLeast = ">= ";
constexpr std::string_view kSameDtype = "dtype of ";
constexpr std::string_view kOtherDtypes = "dtype not ";
constexpr std::string_view kThisDtype = "dtype ";
constexpr std::string_view kDistinct = "distinct in ";

bool starts_with(const std::string& text, std::string_view beginning) {
  return text.compare(0, beginning.size(), beginning) == 0;
}

double number_of(std::string_view text) {
  if (text.compare(0, kAtLeast.size(), kAtLeast) == 0) text.remove_prefix(kAtLeast.size());
  return parse_real(text).value_or(std::nan(""));
}

bool has_value(const c10::IValue& value, const std::string& text, double number) {
  if (value.isNone()) return text == "None";
  if (value.isString()) return value.toStringRef() == text;
  if (value.isList()) return text == "[]" && value.toListRef().empty();
  if (value.isBool()) return text == (value.toBool() ? "True" : "False");
  if (!value.isInt() && !value.isDouble()) return false;
  const double given = value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
  return starts_with(text, kAtLeast) ? given >= number : given == number;
}

// Of a tensor, of a number, or of an argument that is a dtype; Undefined for None.
at::ScalarType dtype_of(const c10::IValue& value, bool is_number) {
  if (is_number && value.isScalar()) return value.toScalar().type();
  if (value.isInt()) return static_cast<at::ScalarType>(value.toInt());
  const bool given = value.isTensor() && value.toTensor().defined();
  return given ? value.toTensor().scalar_type() : at::ScalarType::Undefined;
}

// Whether dimensions are in range and none comes twice.
bool are_distinct(const c10::IValue& dimensions, int64_t count) {
  if (!dimensions.isIntList()) return false;
  std::bitset<64> seen;
  for (int64_t d : dimensions.toIntVector()) {
    if (d < 0) d += count;
    if (d < 0 || d >= count || d >= 64 || seen[static_cast<size_t>(d)]) return false;
    seen.set(static_cast<size_t>(d));
  }
  return true;
}

}  // namespace

Requirements::Requirement Requirements::parse(int argument, const std::string& text) const {
  using Kind = Requirement::Kind;
  if (starts_with(text, kSameDtype)) {
    const int other = overload_.index(text.substr(kSameDtype.size()));
    return {Kind::kSameDtype, argument, text, 0, 0, other};
  }
  if (starts_with(text, kOtherDtypes)) {
    return {Kind::kDtypes, argument, text, 0, ~dtype_set(text.substr(kOtherDtypes.size()))};
  }
  if (starts_with(text, kThisDtype)) {
    return {Kind::kDtypes, argument, text, 0, dtype_set(text.substr(kThisDtype.size()))};
  }
  if (starts_with(text, kDistinct)) {
    const int other = overload_.index(text.substr(kDistinct.size()));
    return {Kind::kDistinct, argument, text, 0, 0, other};
  }
  return {Kind::kValue, argument, text, number_of(text)};
}

Requirements::Requirements(const Row& row, const Overload& overload) : overload_(overload) {
  for (const auto& [argument, text] : row.dictionary("requires")) {
    const int index = overload.index(argument);
    c10::TypePtr type = overload.argument(index).type();
    if (const auto list = type->cast<c10::ListType>()) type = list->getElementType();
    requirements_.push_back(parse(index, text));
    requirements_.back().is_number = type->kind() == c10::TypeKind::NumberType;
  }
  for (int i = 0; i < static_cast<int>(overload.argument_count()); ++i) {
    const auto length = overload.argument(i).N();
    const auto list = overload.argument(i).type()->cast<c10::ListType>();
    if (length.has_value() && list && list->getElementType()->kind() == c10::TypeKind::BoolType) {
      requirements_.push_back({Requirement::Kind::kLength, i, "", 0, 0, *length});
    }
  }
}

bool Requirements::holds(const Requirement& requirement, const torch::jit::Stack& stack) const {
  using Kind = Requirement::Kind;
  const c10::IValue& value = overload_.read(stack, requirement.argument);
  if (requirement.kind == Kind::kValue) {
    return has_value(value, requirement.text, requirement.number);
  }
  if (requirement.kind == Kind::kLength) {
    return value.isList() && static_cast<int>(value.toListRef().size()) == requirement.other;
  }
  const c10::IValue& other =
      requirement.other >= 0 ? overload_.read(stack, requirement.other) : value;
  if (requirement.kind == Kind::kDistinct) {
    return other.isTensor() && are_distinct(value, other.toTensor().dim());
  }
  const at::ScalarType wanted =
      requirement.kind == Kind::kSameDtype ? dtype_of(other, false) : at::ScalarType::Undefined;
  const auto has_dtype = [&](const c10::IValue& one) {
    const at::ScalarType dtype = dtype_of(one, requirement.is_number);
    if (dtype == at::ScalarType::Undefined) return true;
    if (requirement.kind == Kind::kDtypes) return (requirement.dtypes & dtype_bit(dtype)) != 0;
    return wanted == at::ScalarType::Undefined || dtype == wanted;
  };
  if (!value.isList()) return has_dtype(value);
  const auto elements = value.toListRef();
  if (requirement.kind == Kind::kSameDtype && other.isList()) {
    const auto others = other.toListRef();
    return std::equal(elements.begin(), elements.end(), others.begin(), others.end(),
                      [](const c10::IValue& one, const c10::IValue& same) {
                        return dtype_of(one, false) == dtype_of(same, false);
                      });
  }
  return std::all_of(elements.begin(), elements.end(), has_dtype);
}

bool Requirements::hold(const torch::jit::Stack& stack) const {
  for (const Requirement& requirement : requirements_) {
    if (!holds(requirement, stack)) return false;
  }
  return true;
}

}  // namespace outboard
