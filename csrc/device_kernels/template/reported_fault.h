// What kernels of an operator report when they read a wrong value, such as an index out of range.
#pragma once

#include <string>

#include "device_kernels/definitions/definition.h"
#include "device_kernels/kernel_table.h"
#include "runtime/programs/device_assert.h"

namespace outboard {

class ReportedFault {
 public:
  // Properties of a definition: `reports`, "IndexError" or "RuntimeError", else there is nothing to
  // report; and `report`, the message, by default of an index. Raises ValueError for another error.
  ReportedFault(const Definition& definition, const std::string& overload);

  bool reports() const noexcept { return !message_.empty(); }
  // The assert flag on a device. Inside of a ReportScope it is that of the operator there.
  DeviceAssert& on(c10::DeviceIndex device) const;

 private:
  friend class ReportScope;

  DeviceAssert::Kind kind_ = DeviceAssert::Kind::kIndexError;
  std::string message_;
  mutable KernelTable<c10::DeviceIndex, DeviceAssert*> faults_;
};

// While it lives, what this thread launches reports as `fault` says, if that reports anything: the
// exception is that of the operator that was called, not of those that it is made of. Of nested
// scopes the outer one counts.
class ReportScope {
 public:
  explicit ReportScope(const ReportedFault& fault) noexcept;
  ~ReportScope();
  ReportScope(const ReportScope&) = delete;
  ReportScope& operator=(const ReportScope&) = delete;

 private:
  const ReportedFault* const before_;
};

}  // namespace outboard
