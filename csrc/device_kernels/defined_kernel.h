// Device kernels made from operator definitions, without knowledge of operator names.
//
// A new kind of definition is a file with a class derived from DefinedKernel, which takes a
// definition and the schema of one overload, and one line at file scope:
//
//   OUTBOARD_DEFINITION_KIND("reduction", ReductionKernel);
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/function_schema.h>
#include <c10/macros/Macros.h>

#include <memory>
#include <string>
#include <vector>

#include "dispatch/router.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/definitions/conditions.h"
#include "device_kernels/definitions/definition.h"
#include "runtime/export.h"

namespace outboard {

// Base of all kinds, with the properties of every definition:
//
//   conditions  nodes over the arguments; if one is false the call is declined
//               (definitions/conditions.h)
//   alert       for one whose result is one of several, since elements may be written more than
//               once: the name under which PyTorch raises or warns of that where deterministic
//               algorithms are asked for
//
// Derived classes have the constructor `(const Definition&, const c10::FunctionSchema&)`, which
// raises ValueError for an invalid definition.
class OUTBOARD_API DefinedKernel : public DeviceKernel {
 public:
  // `own_conditions`: the derived class evaluates the conditions, with more than the arguments.
  DefinedKernel(const Definition& definition, const c10::FunctionSchema& schema,
                bool own_conditions = false)
      : overload_(schema),
        conditions_(definition, overload_),
        family_(definition.family.empty() ? definition.kind : definition.family),
        alert_(definition.text("alert")),
        own_conditions_(own_conditions) {}
  const char* family() const noexcept override { return family_.c_str(); }
  bool run(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack,
           c10::DeviceIndex device, bool keeps_arguments) final {
    if (!own_conditions_ && !conditions_.hold(*stack)) return false;
    const size_t base = stack->size() - overload_.argument_count();
    if (!serve(stack, device)) return false;
    if (!keeps_arguments) overload_.take_arguments(*stack, base);
    return true;
  }

 protected:
  // `run` with `keeps_arguments`, for a call that meets the conditions.
  virtual bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) = 0;
  // Call before the first launch.
  void alert() const;

  const Overload overload_;
  const CallConditions conditions_;

 private:
  const std::string family_;
  const std::string alert_;
  const bool own_conditions_;
};

using KernelFactory = std::shared_ptr<DeviceKernel> (*)(const Definition&,
                                                        const c10::FunctionSchema&);

struct KindRegistrar {
  OUTBOARD_API KindRegistrar(const char* name, KernelFactory factory);
};

// The kernel of one overload of a definition. Raises ValueError for an invalid kind or definition.
OUTBOARD_API std::shared_ptr<DeviceKernel> make_device_kernel(const Definition& definition,
                                                              const std::string& overload);

// Registers definitions with the router as built-in kernels or library calls; the last one of an
// overload is tried first.
OUTBOARD_API void add_definitions(const std::vector<Definition>& definitions);

}  // namespace outboard

#define OUTBOARD_DEFINITION_KIND(name, Class)                                              \
  static const ::outboard::KindRegistrar C10_ANONYMOUS_VARIABLE(outboard_definition_kind)( \
      name,                                                                                \
      [](const ::outboard::Definition& definition, const c10::FunctionSchema& schema)      \
          -> std::shared_ptr<::outboard::DeviceKernel> {                                   \
            return std::make_shared<Class>(definition, schema);                            \
          })
