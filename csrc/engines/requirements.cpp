#include "engines/requirements.h"

#include <cmath>
#include <string_view>

#include "engines/expression_number.h"

namespace outboard {
namespace {

constexpr std::string_view kAtLeast = ">= ";

double number_of(std::string_view text) {
  if (text.compare(0, kAtLeast.size(), kAtLeast) == 0) text.remove_prefix(kAtLeast.size());
  return parse_real(text).value_or(std::nan(""));
}

bool holds(const c10::IValue& value, const std::string& text, double number) {
  if (value.isNone()) return text == "None";
  if (value.isString()) return value.toStringRef() == text;
  if (value.isBool()) return text == (value.toBool() ? "True" : "False");
  if (!value.isInt() && !value.isDouble()) return false;
  const double given = value.isInt() ? static_cast<double>(value.toInt()) : value.toDouble();
  return text.compare(0, kAtLeast.size(), kAtLeast) == 0 ? given >= number : given == number;
}

}  // namespace

Requirements::Requirements(const Row& row, const Overload& overload) : overload_(overload) {
  for (const auto& [argument, text] : row.dictionary("requires")) {
    requirements_.push_back({overload.index(argument), text, number_of(text)});
  }
}

bool Requirements::hold(const torch::jit::Stack& stack) const {
  for (const Requirement& requirement : requirements_) {
    if (!holds(overload_.read(stack, requirement.argument), requirement.text, requirement.number)) {
      return false;
    }
  }
  return true;
}

}  // namespace outboard
