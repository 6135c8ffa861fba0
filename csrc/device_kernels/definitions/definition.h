// An operator definition from Python (torch_outboard/ops/definition.py): overloads, kind, and
// properties.
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

class OUTBOARD_API Definition {
 public:
  using Function = std::shared_ptr<const DecompositionFunction>;
  using Integers = std::vector<int64_t>;
  using NamedIntegers = std::vector<std::pair<std::string, int64_t>>;
  using NamedReals = std::map<std::string, double>;
  using Value =
      std::variant<bool, int64_t, double, std::string, std::vector<std::string>, Integers,
                   std::map<std::string, std::string>, NamedIntegers, NamedReals, Function>;

  std::string kind;                    // "pointwise"
  std::string family;                  // for listings; "": the kind
  std::string location;                // "file:line" in Python, or empty
  std::vector<std::string> overloads;  // "aten::add.Tensor"
  // Nodes, which properties name by index.
  std::shared_ptr<const ExpressionGraph> graph = std::make_shared<const ExpressionGraph>();
  std::map<std::string, Value> properties;

  // The value of a property, or the default without it. Another type raises ValueError.
  bool flag(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise = 0) const;
  // Bits of dtypes (kernel_types.h), by default of all.
  uint64_t dtypes() const { return static_cast<uint64_t>(integer("dtypes", -1)); }
  std::optional<double> real(const std::string& key) const;  // also of an integer
  const std::string& string(const std::string& key) const;   // default: ""
  // The index of a string in `known`, by default 0. Another string raises ValueError.
  size_t one_of(const std::string& key, const std::vector<std::string>& known) const;
  const std::vector<std::string>& strings(const std::string& key) const;
  const Integers& integers(const std::string& key) const;
  const std::map<std::string, std::string>& dictionary(const std::string& key) const;
  const NamedIntegers& named_integers(const std::string& key) const;
  const NamedReals& named_reals(const std::string& key) const;
  // Nodes of the graph; -1: none.
  int node(const std::string& key) const;
  std::vector<int> nodes(const std::string& key) const;
  // A function in Python, or in C++ by its name (OUTBOARD_DECOMPOSITION).
  Function function(const std::string& key) const;

  // Raises ValueError if a property, a list or a dictionary, has a name that is not in `known`.
  void check_names(const std::string& key, const std::vector<std::string>& known) const;

  // The properties that were not read. A kernel reads all properties of its kind.
  std::vector<std::string> unknown() const;
  // The property that was read last: errors of a kernel that reads a definition name it.
  const std::string& last_asked() const { return last_asked_; }

 private:
  void ask(const std::string& key) const;
  // nullptr without the property, or for an empty list or dictionary of another type.
  template <class T>
  const T* find(const std::string& key) const;

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
