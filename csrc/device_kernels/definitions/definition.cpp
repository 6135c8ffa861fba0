#include "device_kernels/definitions/definition.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <sstream>

namespace outboard {

Definition::Strings Definition::unknown() const {
  Strings result;
  for (const auto& [key, value] : fields) {
    if (asked_.count(key) == 0) result.push_back(key);
  }
  return result;
}

const Definition::Value& Definition::find(const std::string& key) const {
  asked_.insert(key);
  last_asked_ = key;
  const auto found = fields.find(key);
  TORCH_CHECK_VALUE(found != fields.end(), "definitions of the kind '", kind,
                    "' in Python lack it");
  return found->second;
}

void Definition::check_empty(const Value& value) const {
  const bool empty = std::visit(
      [](const auto& any) {
        if constexpr (requires { any.begin(); }) {
          return any.empty();
        } else {
          return false;
        }
      },
      value);
  TORCH_CHECK_VALUE(empty, "the value has a type that definitions of the kind '", kind,
                    "' do not take");
}

namespace {

std::map<std::string, Definition::Function>& functions() {
  static auto* instance = new std::map<std::string, Definition::Function>;
  return *instance;
}

}  // namespace

DecompositionRegistrar::DecompositionRegistrar(const char* name, const char* parameters,
                                               std::function<bool(torch::jit::Stack&)> function) {
  DecompositionFunction made;
  made.watched = false;
  std::istringstream names(parameters);
  for (std::string parameter; names >> parameter;) made.parameters.push_back(parameter);
  made.call = [function = std::move(function)](const auto&, const auto&, torch::jit::Stack& stack) {
    return function(stack);
  };
  functions()[name] = std::make_shared<const DecompositionFunction>(std::move(made));
}

std::optional<double> Definition::real(const std::string& key) const {
  const Value& value = find(key);
  if (std::holds_alternative<std::monostate>(value)) return std::nullopt;
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? static_cast<double>(*integer) : get<double>(key);
}

size_t Definition::index_of(const Strings& known, const std::string& name) {
  const auto found = std::find(known.begin(), known.end(), name);
  TORCH_CHECK_VALUE(found != known.end(), "it names '", name, "', which is none of '",
                    c10::Join("', '", known), "'");
  return static_cast<size_t>(found - known.begin());
}

std::vector<int> Definition::nodes(const std::string& key) const {
  std::vector<int> result;
  for (const int64_t index : get<Integers>(key)) result.push_back(node(index));
  return result;
}

void Definition::check_names(const std::string& key, const Strings& known) const {
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { value.begin()->first; }) {
          for (const auto& [name, of_name] : value) index_of(known, name);
        } else {
          for (const std::string& name : strings(key)) index_of(known, name);
        }
      },
      find(key));
}

Definition::Function Definition::function(const std::string& key) const {
  const auto* name = std::get_if<std::string>(&find(key));
  if (name == nullptr) return get<Function>(key);
  const auto known = functions().find(*name);
  TORCH_CHECK_VALUE(known != functions().end(), "there is no function '", *name, "'");
  return known->second;
}

}  // namespace outboard
