#include "device_kernels/template/reported_fault.h"

#include <c10/util/Exception.h>

namespace outboard {
namespace {

thread_local const ReportedFault* outer_fault = nullptr;

}  // namespace

ReportedFault::ReportedFault(const Definition& definition, const std::string& overload) {
  const std::string& message = definition.text("report");
  const std::string& kind = definition.text("reports");
  if (kind.empty()) return;
  TORCH_CHECK_VALUE(kind == "IndexError" || kind == "RuntimeError", "it reports ", kind,
                    "; it can report IndexError or RuntimeError");
  if (kind == "RuntimeError") kind_ = DeviceAssert::Kind::kRuntimeError;
  message_ = c10::str(message.empty() ? "index out of range" : message, " in ", overload);
}

DeviceAssert& ReportedFault::on(c10::DeviceIndex device) const {
  const ReportedFault& fault = outer_fault != nullptr ? *outer_fault : *this;
  return *fault.faults_.find(
      device, [&] { return &DeviceAssert::make(device, fault.kind_, fault.message_); });
}

ReportScope::ReportScope(const ReportedFault& fault) noexcept : before_(outer_fault) {
  if (outer_fault == nullptr && fault.reports()) outer_fault = &fault;
}

ReportScope::~ReportScope() { outer_fault = before_; }

}  // namespace outboard
