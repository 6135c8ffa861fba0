#include "device_kernels/engine.h"

#include <ATen/Context.h>

#include <map>

#include "dispatch/router.h"

namespace outboard {
namespace {

std::map<std::string, EngineFactory>& factories() {
  static auto* instance = new std::map<std::string, EngineFactory>;
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

EngineRegistrar::EngineRegistrar(const char* name, EngineFactory factory) {
  factories()[name] = factory;
}

void EngineKernel::alert() const {
  if (!alert_.empty()) at::globalContext().alertNotDeterministic(alert_);
}

std::shared_ptr<DeviceKernel> make_device_kernel(const Row& row, const std::string& overload) {
  const std::string& first = row.overloads.empty() ? overload : row.overloads[0];
  const std::string place = row.location.empty() ? "" : row.location + ": ";
  const auto found = factories().find(row.engine);
  TORCH_CHECK_VALUE(found != factories().end(), place, "the definition of ", first,
                    " asks for engine '", row.engine, "', which does not exist");
  std::shared_ptr<DeviceKernel> kernel;
  try {
    kernel = found->second(row, operator_of(overload).schema());
  } catch (const c10::Error& error) {
    TORCH_CHECK_VALUE(false, place, "property '", row.last_asked(), "' of the definition of ",
                      first, first == overload ? "" : ", for " + overload, ": ",
                      error.what_without_backtrace());
  }
  const std::vector<std::string> unknown = row.unknown();
  TORCH_CHECK_VALUE(unknown.empty(), place, "the definition of ", first, " has the property '",
                    unknown[0], "', which engine '", row.engine, "' does not know");
  return kernel;
}

void add_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    for (const std::string& overload : row.overloads) {
      RoutedKernel kernel;
      kernel.device_kernel = make_device_kernel(row, overload);
      kernel.source = kernel.device_kernel->calls_library() ? Source::kLibrary : Source::kKit;
      kernel.placement = Placement::kDevice;
      add_kernel(overload, std::move(kernel));
    }
  }
}

}  // namespace outboard
