#include "runtime/device_reset.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/memory/adopted_memory.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/programs/program.h"
#include "runtime/streams/event.h"
#include "runtime/streams/graph.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

// What is still to be raised is of the time before the reset.
void wait_and_forget(c10::DeviceIndex device) {
  try {
    synchronize_device(device);
  } catch (const c10::Error&) {
    // A lost device refuses to be waited for, and has nothing to do.
  }
}

}  // namespace

void reset_device(c10::DeviceIndex device) {
  check_fork();
  check_device_index(device);
  const ob_driver& table = driver();
  TORCH_CHECK_NOT_IMPLEMENTED(table.device_reset != nullptr, "driver '", table.name,
                              "' cannot reset its devices; restart the process instead");
  const int graphs = live_graphs(device);
  TORCH_CHECK(graphs == 0, device_of(device), " cannot be reset while ", graphs,
              " captured graphs use it; let go of them and call again");
  wait_and_forget(device);
  release_unused_adopted_memory(/*wait=*/true);
  const auto [used, reserved] = caching_allocator()->give_back(device);
  TORCH_CHECK(used == 0 && reserved == 0, device_of(device), " cannot be reset while tensors hold ",
              c10::CachingAllocator::format_size(used == 0 ? reserved : used),
              " of its memory; let go of them and call again");
  release_fault_words(device);
  release_programs(table, device);
  ob_status status = OB_OK;
  {
    const WaitScope scope("device_reset");
    status = table.device_reset(table.context, device);
  }
  check_status(status, "device_reset");
  forget_work(device);
  forget_event_times(device);
  take_deferred_failure();
  renew_fault_words(device);
}

}  // namespace outboard
