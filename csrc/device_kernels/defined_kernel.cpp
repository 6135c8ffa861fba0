#include "device_kernels/defined_kernel.h"

#include <ATen/Context.h>

#include <map>

#include "dispatch/router.h"

namespace outboard {
namespace {

std::map<std::string, KernelFactory>& factories() {
  static auto* instance = new std::map<std::string, KernelFactory>;
  return *instance;
}

c10::OperatorHandle operator_of(const std::string& overload) {
  const size_t dot = overload.find('.');
  const auto handle = c10::Dispatcher::singleton().findSchema(
      dot == std::string::npos
          ? c10::OperatorName(overload, "")
          : c10::OperatorName(overload.substr(0, dot), overload.substr(dot + 1)));
  TORCH_CHECK_VALUE(handle.has_value(), "operator '", overload,
                    "' does not exist; write it as 'aten::add.Tensor'");
  return *handle;
}

}  // namespace

KindRegistrar::KindRegistrar(const char* name, KernelFactory factory) {
  factories()[name] = factory;
}

void DefinedKernel::alert() const {
  if (!alert_.empty()) at::globalContext().alertNotDeterministic(alert_);
}

std::shared_ptr<DeviceKernel> make_device_kernel(const Definition& definition,
                                                 const std::string& overload) {
  const std::string& first = definition.overloads.empty() ? overload : definition.overloads[0];
  const std::string place = definition.location.empty() ? "" : definition.location + ": ";
  const auto found = factories().find(definition.kind);
  TORCH_CHECK_VALUE(found != factories().end(), place, "the definition of ", first,
                    " has the kind '", definition.kind, "', which does not exist");
  std::shared_ptr<DeviceKernel> kernel;
  try {
    kernel = found->second(definition, operator_of(overload).schema());
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(
        false, place, "property '", definition.last_asked(), "' of the definition of ", first,
        first == overload ? "" : ", for " + overload, ": ", error.what_without_backtrace());
  }
  const std::vector<std::string> unknown = definition.unknown();
  TORCH_CHECK_VALUE(unknown.empty(), place, "the definition of ", first, " has the property '",
                    unknown[0], "', which definitions of the kind '", definition.kind,
                    "' do not have");
  return kernel;
}

void add_definitions(const std::vector<Definition>& definitions) {
  for (const Definition& definition : definitions) {
    for (const std::string& overload : definition.overloads) {
      RoutedKernel kernel;
      kernel.device_kernel = make_device_kernel(definition, overload);
      kernel.source = kernel.device_kernel->calls_library() ? Source::kLibrary : Source::kKit;
      kernel.placement = Placement::kDevice;
      add_kernel(overload, std::move(kernel));
    }
  }
}

}  // namespace outboard
