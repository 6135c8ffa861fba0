// Device kernels made from operator definitions.
//
// A new kind of definition is a class derived from DefinedKernel and one line at file scope:
//
//   C10_REGISTER_CLASS(DefinitionKinds, reduction, ReductionKernel);
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <c10/util/Registry.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/definitions/definition.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_table.h"
#include "dispatch/router.h"
#include "runtime/export.h"
#include "runtime/programs/device_assert.h"

namespace outboard {

// The conditions of a definition: nodes that must be true for calls it serves. Lists of flags must
// also have the length of the schema.
class OUTBOARD_API CallConditions {
 public:
  CallConditions(const Definition& definition, const Overload& overload);

  bool hold(const torch::jit::Stack& stack) const;
  // The same with an evaluation that has the arguments and further names.
  bool hold(const torch::jit::Stack& stack, Evaluation& evaluation) const;

  const ExpressionGraph& graph() const { return *graph_; }
  // Sets the names of the graph that are arguments of the call.
  void set_arguments(Evaluation& evaluation, const torch::jit::Stack& stack) const;

 private:
  const Overload& overload_;
  const std::shared_ptr<const ExpressionGraph> graph_;
  const std::vector<int> nodes_;
  std::vector<std::pair<int, int>> arguments_;  // node, argument
  std::vector<std::pair<int, int>> flags_;      // argument, length
};

// The result of `function`, which evaluates nodes of a definition; false if values of the call do
// not fit. The CPU kernel raises for them.
template <class Function>
bool evaluates(const Function& function) {
  try {
    return function();
  } catch (const c10::ValueError&) {
    return false;
  } catch (const c10::IndexError&) {
    return false;
  }
}

// The device-side assert of a definition: the error of kernels that read a wrong value, such as an
// index out of range.
class DefinedAssert {
 public:
  // Fields of a definition: `reports`, "IndexError" or "RuntimeError", without which kernels assert
  // nothing; `report`, the message, by default that of an index. Raises ValueError for another
  // error.
  DefinedAssert(const Definition& definition, const std::string& overload);

  bool reports() const noexcept { return !message_.empty(); }
  // The assert flag on a device; inside an AssertScope the flag of its operator.
  DeviceAssert& on(c10::DeviceIndex device) const;

 private:
  friend class AssertScope;

  DeviceAssert::Kind kind_ = DeviceAssert::Kind::kIndexError;
  std::string message_;
  mutable KernelTable<c10::DeviceIndex, DeviceAssert*> flags_;
};

// Launches of this thread use the assert of a decomposition, if it has one: the error names the
// operator that was called, not those that its body calls. The outermost scope wins.
class AssertScope {
 public:
  explicit AssertScope(const DefinedAssert& asserted) noexcept;
  ~AssertScope();
  AssertScope(const AssertScope&) = delete;
  AssertScope& operator=(const AssertScope&) = delete;

 private:
  const DefinedAssert* const outer_;
};

// Base of all kinds. Derived classes have the constructor `(const Definition&, const
// c10::FunctionSchema&)`, which raises ValueError for an invalid definition.
class OUTBOARD_API DefinedKernel : public DeviceKernel {
 public:
  // `evaluates_conditions`: the derived class evaluates the conditions, with further names.
  DefinedKernel(const Definition& definition, const c10::FunctionSchema& schema,
                bool evaluates_conditions = false)
      : overload_(schema),
        conditions_(definition, overload_),
        family_(definition.string("family").empty() ? definition.kind
                                                    : definition.string("family")),
        alert_(definition.string("alert")),
        evaluates_conditions_(evaluates_conditions) {}
  const char* family() const noexcept override { return family_.c_str(); }
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
           c10::DeviceIndex device, bool keeps_arguments) final {
    if (!evaluates_conditions_ && !conditions_.hold(*stack)) return false;
    const size_t base = stack->size() - overload_.argument_count();
    if (!serve(stack, device)) return false;
    if (!keeps_arguments) overload_.take_arguments(*stack, base);
    return true;
  }

 protected:
  // Runs a call that meets the conditions. Leaves the arguments on the stack below the results.
  virtual bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) = 0;
  // Raises or warns of a nondeterministic operator; call it before the first launch.
  void alert() const;

  const Overload overload_;
  const CallConditions conditions_;

 private:
  const std::string family_;
  const std::string alert_;
  const bool evaluates_conditions_;
};

C10_DECLARE_SHARED_REGISTRY(DefinitionKinds, DeviceKernel, const Definition&,
                            const c10::FunctionSchema&);

// The kernel of one overload of a definition. Raises ValueError for an invalid kind or definition.
OUTBOARD_API std::shared_ptr<DeviceKernel> make_device_kernel(const Definition& definition,
                                                              const std::string& overload);

// Registers definitions with the router as built-in kernels or library calls; the last one of an
// overload is tried first.
OUTBOARD_API void add_definitions(const std::vector<Definition>& definitions);

}  // namespace outboard
