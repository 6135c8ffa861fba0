#include "device_kernels/definitions/definition.h"

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>

#include <sstream>

namespace outboard {

void Definition::ask(const std::string& key) const {
  asked_.insert(key);
  last_asked_ = key;
}

std::vector<std::string> Definition::unknown() const {
  std::vector<std::string> result;
  for (const auto& [key, value] : properties) {
    if (asked_.count(key) == 0) result.push_back(key);
  }
  return result;
}

template <class T>
const T* Definition::find(const std::string& key) const {
  ask(key);
  const auto found = properties.find(key);
  if (found == properties.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  const bool empty = std::visit(
      [](const auto& any) {
        if constexpr (requires { any.begin(); }) {
          return any.empty();
        } else {
          return false;
        }
      },
      found->second);
  if (value == nullptr && empty) return nullptr;
  TORCH_CHECK_VALUE(value != nullptr, "the value is of a type that definitions of the kind '", kind,
                    "' do not have");
  return value;
}

namespace {

template <class T>
const T& or_empty(const T* value) {
  static const T* empty = new T;
  return value != nullptr ? *value : *empty;
}

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

bool Definition::flag(const std::string& key) const {
  const bool* value = find<bool>(key);
  return value != nullptr && *value;
}

int64_t Definition::integer(const std::string& key, int64_t otherwise) const {
  const int64_t* value = find<int64_t>(key);
  return value != nullptr ? *value : otherwise;
}

std::optional<double> Definition::real(const std::string& key) const {
  const auto found = properties.find(key);
  if (found != properties.end() && std::holds_alternative<int64_t>(found->second)) {
    return static_cast<double>(integer(key));
  }
  const double* value = find<double>(key);
  return value != nullptr ? std::optional(*value) : std::nullopt;
}

const std::string& Definition::string(const std::string& key) const {
  return or_empty(find<std::string>(key));
}

size_t Definition::one_of(const std::string& key, const std::vector<std::string>& known) const {
  const std::string* value = find<std::string>(key);
  if (value == nullptr) return 0;
  const auto found = std::find(known.begin(), known.end(), *value);
  TORCH_CHECK_VALUE(found != known.end(), "'", *value, "' is none of '", c10::Join("', '", known),
                    "'");
  return static_cast<size_t>(found - known.begin());
}

const std::vector<std::string>& Definition::strings(const std::string& key) const {
  return or_empty(find<std::vector<std::string>>(key));
}

const Definition::Integers& Definition::integers(const std::string& key) const {
  return or_empty(find<Integers>(key));
}

const Definition::NamedIntegers& Definition::named_integers(const std::string& key) const {
  return or_empty(find<NamedIntegers>(key));
}

const Definition::NamedReals& Definition::named_reals(const std::string& key) const {
  return or_empty(find<NamedReals>(key));
}

int Definition::node(const std::string& key) const {
  const int64_t index = integer(key, -1);
  return index < 0 ? -1 : graph->checked(index);
}

std::vector<int> Definition::nodes(const std::string& key) const {
  std::vector<int> result;
  for (const int64_t index : integers(key)) {
    result.push_back(index < 0 ? -1 : graph->checked(index));
  }
  return result;
}

void Definition::check_names(const std::string& key, const std::vector<std::string>& known) const {
  ask(key);
  const auto found = properties.find(key);
  if (found == properties.end()) return;
  const auto check = [&](const std::string& name) {
    TORCH_CHECK_VALUE(std::find(known.begin(), known.end(), name) != known.end(), "it names '",
                      name, "', which is none of '", c10::Join("', '", known), "'");
  };
  std::visit(
      [&](const auto& value) {
        if constexpr (requires { value.begin()->first; }) {
          for (const auto& [name, of_name] : value) check(name);
        } else {
          for (const std::string& name : strings(key)) check(name);
        }
      },
      found->second);
}

const std::map<std::string, std::string>& Definition::dictionary(const std::string& key) const {
  return or_empty(find<std::map<std::string, std::string>>(key));
}

Definition::Function Definition::function(const std::string& key) const {
  const auto found = properties.find(key);
  if (found != properties.end() && std::holds_alternative<std::string>(found->second)) {
    const auto known = functions().find(string(key));
    TORCH_CHECK_VALUE(known != functions().end(), "there is no function '", string(key),
                      "', which the definition of ",
                      overloads.empty() ? "no operator" : overloads[0], " asks for");
    return known->second;
  }
  const Function* value = find<Function>(key);
  return value != nullptr ? *value : nullptr;
}

}  // namespace outboard
