#include "device_kernels/template/reported_fault.h"

#include <c10/util/Exception.h>

namespace outboard {
namespace {

thread_local const ReportedFault* outer_fault = nullptr;

}  // namespace

ReportedFault::ReportedFault(const std::string& reports, const std::string& overload) {
  if (reports.empty()) return;
  const size_t colon = reports.find(": ");
  const std::string kind = reports.substr(0, colon);
  TORCH_CHECK_VALUE(kind == "IndexError" || kind == "RuntimeError", "it reports '", reports,
                    "'; it can report IndexError or RuntimeError, and ': words'");
  if (kind == "RuntimeError") kind_ = KernelFault::Kind::kRuntimeError;
  const std::string words =
      colon == std::string::npos ? "index out of range" : reports.substr(colon + 2);
  message_ = c10::str(words, " in ", overload);
}

KernelFault& ReportedFault::on(c10::DeviceIndex device) const {
  const ReportedFault& fault = outer_fault != nullptr ? *outer_fault : *this;
  return *fault.faults_.find(
      device, [&] { return &KernelFault::make(device, fault.kind_, fault.message_); });
}

ReportScope::ReportScope(const ReportedFault& fault) noexcept : before_(outer_fault) {
  if (outer_fault == nullptr && fault.reports()) outer_fault = &fault;
}

ReportScope::~ReportScope() { outer_fault = before_; }

}  // namespace outboard
