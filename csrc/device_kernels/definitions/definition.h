// An operator definition as Python gives it: the overloads, the kind of definition, and
// what kernels of this kind need to know.
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
  using Arguments = std::vector<c10::Argument>;  // their names and types

  std::vector<std::string> parameters;
  // Whether the caller has to check that it writes to no argument before it declines a call.
  bool watched = true;
  // Takes values of the parameters, which are all that lies on the stack, and leaves the results.
  // False: it declined the call. Any number of threads may call it.
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
  std::string family;                  // kind of work, for listings; "": the kind of definition
  std::string location;                // "file:line" of the definition in Python, or empty
  std::vector<std::string> overloads;  // "aten::add.Tensor"
  // What properties that are nodes are computed by.
  std::shared_ptr<const ExpressionGraph> graph = std::make_shared<const ExpressionGraph>();
  std::map<std::string, Value> properties;

  bool has(const std::string& key) const;
  // The value of a property, or what is given here where there is none. One of another type raises.
  bool flag(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise = 0) const;
  std::optional<double> real(const std::string& key) const;  // integers are real, too
  const std::string& text(const std::string& key) const;     // otherwise ""
  // The index of a text among those that are known, 0 where there is none. Another one raises.
  size_t one_of(const std::string& key, const std::vector<std::string>& known) const;
  const std::vector<std::string>& texts(const std::string& key) const;
  const Integers& integers(const std::string& key) const;
  const std::map<std::string, std::string>& dictionary(const std::string& key) const;
  const NamedIntegers& named_integers(const std::string& key) const;
  const NamedReals& named_reals(const std::string& key) const;
  // Nodes of the graph. -1 where there is none.
  int node(const std::string& key) const;
  std::vector<int> nodes(const std::string& key) const;
  // A text is the name of a function in C++ (OUTBOARD_DECOMPOSITION).
  Function function(const std::string& key) const;

  // Raises where a property, a list or a dictionary, mentions another name than these.
  void check_names(const std::string& key, const std::vector<std::string>& known) const;

  // The properties that no kernel has asked for so far. A kernel asks for all that it knows.
  std::vector<std::string> unknown() const;
  // The one that was asked for last: what a kernel raises while it reads a definition is blamed on
  // it.
  const std::string& last_asked() const { return last_asked_; }
  // The same as asking for it, without a value.
  void ask(const std::string& key) const;

 private:
  // nullptr: there is none, or an empty list or dictionary of another type.
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

// At file scope: a function `bool(torch::jit::Stack&)`, as of DecompositionFunction, under a name
// by which definitions refer to it. It must not write to an argument before it declines.
// `parameters` has blanks between names.
#define OUTBOARD_DECOMPOSITION(function, parameters)                                 \
  static const ::outboard::DecompositionRegistrar outboard_decomposition_##function( \
      #function, parameters, &function)
