// An operator definition from Python (torch_outboard/ops/definition.py).
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "device_kernels/expressions/expression.h"
#include "runtime/export.h"

namespace outboard {

// The body of a decomposition, which takes values by name.
struct DecompositionFunction {
  using Arguments = std::vector<c10::Argument>;  // names and types

  std::vector<std::string> parameters;
  // The caller checks that the function writes to no argument before it declines a call.
  bool watched = true;
  // Replaces the values of the parameters, the whole stack, by the results. False: the call is
  // declined. Thread-safe.
  std::function<bool(const Arguments& parameters, const Arguments& returns,
                     torch::jit::Stack& values)>
      call;
};

// The fields of a definition by name. The dataclass in Python is their only list: kernels read all
// fields of their kind, and no others.
class OUTBOARD_API Definition {
 public:
  using Function = std::shared_ptr<const DecompositionFunction>;
  using Strings = std::vector<std::string>;
  using Integers = std::vector<int64_t>;
  using Dictionary = std::map<std::string, std::string>;
  using NamedIntegers = std::vector<std::pair<std::string, int64_t>>;
  using NamedReals = std::map<std::string, double>;
  using Value = std::variant<std::monostate, bool, int64_t, double, std::string, Strings, Integers,
                             Dictionary, NamedIntegers, NamedReals, Function>;

  std::string kind;  // "pointwise"
  // Nodes, which fields name by index.
  std::shared_ptr<const ExpressionGraph> graph = std::make_shared<const ExpressionGraph>();
  std::map<std::string, Value> fields;

  // The value of a field. A missing field and another type raise ValueError.
  template <class T>
  const T& get(const std::string& key) const {
    const Value& value = find(key);
    if (const T* known = std::get_if<T>(&value)) return *known;
    check_empty(value);
    static const T* empty = new T{};
    return *empty;
  }
  bool flag(const std::string& key) const { return get<bool>(key); }
  int64_t integer(const std::string& key) const { return get<int64_t>(key); }
  // Bits of dtypes (kernel_types.h).
  uint64_t dtypes() const { return static_cast<uint64_t>(integer("dtypes")); }
  std::optional<double> real(const std::string& key) const;  // also of an integer
  const std::string& string(const std::string& key) const { return get<std::string>(key); }
  size_t one_of(const std::string& key, const Strings& known) const {
    return index_of(known, string(key));
  }
  const Strings& strings(const std::string& key) const { return get<Strings>(key); }
  const NamedIntegers& named_integers(const std::string& key) const {
    return get<NamedIntegers>(key);
  }
  // Nodes of the graph; -1: none.
  int node(int64_t index) const { return index < 0 ? -1 : graph->checked(index); }
  int node(const std::string& key) const { return node(integer(key)); }
  std::vector<int> nodes(const std::string& key) const;
  // A function in Python, or in C++ by its name (OUTBOARD_DECOMPOSITION).
  Function function(const std::string& key) const;

  // The index of a name in a list. Raises ValueError if it is missing.
  static size_t index_of(const Strings& known, const std::string& name);
  // Raises ValueError if a field, a list or a dictionary, has a name that is not in `known`.
  void check_names(const std::string& key, const Strings& known) const;

  // The fields that were not read.
  Strings unknown() const;
  // The field that was read last: errors of a kernel that reads a definition name it.
  const std::string& last_asked() const { return last_asked_; }

 private:
  const Value& find(const std::string& key) const;
  // Raises ValueError for a value that is no empty list or dictionary, which fit all of their kind.
  void check_empty(const Value& value) const;

  mutable std::set<std::string> asked_;  // definitions are read by one thread
  mutable std::string last_asked_;
};

struct DecompositionRegistrar {
  DecompositionRegistrar(const char* name, const char* parameters,
                         std::function<bool(torch::jit::Stack&)> function);
};

}  // namespace outboard

// At file scope: registers `bool function(torch::jit::Stack&)`, a DecompositionFunction::call,
// under its name for definitions. It must not write to an argument before it declines.
// `parameters`: names separated by blanks.
#define OUTBOARD_DECOMPOSITION(function, parameters)                                 \
  static const ::outboard::DecompositionRegistrar outboard_decomposition_##function( \
      #function, parameters, &function)
