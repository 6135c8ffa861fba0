#include "transfer/device_copy.h"

#include <atomic>

#include "dispatch/report.h"
#include "dispatch/router.h"
#include "dispatch/placement.h"
#include "runtime/programs/program.h"

namespace outboard {
namespace {

std::atomic<DeviceCopy> g_device_copy{nullptr};

Operator& copy_entry() {
  static Operator& entry = router_entry("aten::_copy_from");
  return entry;
}

}  // namespace

void set_device_copy(DeviceCopy function) { g_device_copy.store(function); }

bool device_copies(c10::DeviceIndex device) {
  if (g_device_copy.load(std::memory_order_relaxed) == nullptr || !runs_code(device)) return false;
  ensure_device_kernels();
  return runs_on_device(device);
}

bool copy_on_device(const at::Tensor& destination, const at::Tensor& source) {
  ReportedCall reported(copy_entry(), source.scalar_type(), Placement::kDevice);
  if (g_device_copy.load(std::memory_order_relaxed)(destination, source)) return true;
  reported.cancel();
  return false;
}

}  // namespace outboard
