// Copies between devices. Devices that share the host's memory reach each other's; all others go
// through pinned memory of the host.
#include "ocl.h"

namespace ocl {
namespace {

// A queue of the other device for one copy, so that a copy waits for its own device alone.
class HelperQueue {
 public:
  explicit HelperQueue(Device& device) : queue_(make_queue(device, 0)) {}
  ~HelperQueue() {
    try {
      release_queue(*queue_);  // after its work
    } catch (const Failure&) {
      // The work itself is done or will be.
    }
  }
  HelperQueue(const HelperQueue&) = delete;
  HelperQueue& operator=(const HelperQueue&) = delete;

  ob_queue get() const { return queue_.get(); }

 private:
  std::unique_ptr<ob_queue_t> queue_;
};

void order(ob_queue earlier, ob_queue later) { wait_for(later, mark(earlier), earlier->device); }

void copy_through_host(ob_queue queue, Device& destination_device, ob_address destination,
                       Device& source_device, ob_address source, uint64_t bytes) {
  void* staging = nullptr;
  const ob_host_allocation wanted = {sizeof wanted, bytes};
  host_allocate(&wanted, &staging);
  const bool queue_reads = &queue->device == &source_device;
  const HelperQueue helper(queue_reads ? destination_device : source_device);
  try {
    if (queue_reads) {
      copy_device_to_host(queue, staging, source, bytes);
      order(queue, helper.get());
      copy_host_to_device(helper.get(), destination, staging, bytes);
      order(helper.get(), queue);
    } else {
      order(queue, helper.get());
      copy_device_to_host(helper.get(), staging, source, bytes);
      order(helper.get(), queue);
      copy_host_to_device(queue, destination, staging, bytes);
    }
    run_after(mark(queue), *queue->device.api, [staging] {
      try {
        host_deallocate(staging);
      } catch (const Failure&) {
        // Memory leaks; the failure cannot be reported.
      }
    });
  } catch (...) {
    // What was enqueued may still use the memory.
    try {
      queue_synchronize(helper.get());
      queue_synchronize(queue);
      host_deallocate(staging);
    } catch (const Failure&) {
      // The first failure is the one to report.
    }
    throw;
  }
}

bool reach_each_other(const Device& one, const Device& other) {
  return one.memory == MemoryKind::kShared && other.memory == MemoryKind::kShared;
}

}  // namespace

ob_status peer_access(int32_t index, int32_t peer, int32_t* direct) {
  *direct = reach_each_other(device_at(index), device_at(peer)) ? 1 : 0;
  return OB_OK;
}

ob_status copy_peer(ob_queue queue, int32_t destination_device, ob_address destination,
                    int32_t source_device, ob_address source, uint64_t bytes) {
  if (queue->device.index != destination_device && queue->device.index != source_device) {
    fail(OB_INVALID_ARGUMENT, "A queue of device %d cannot copy from device %d to %d.",
         queue->device.index, source_device, destination_device);
  }
  Device& to_device = device_at(destination_device);
  Device& from_device = device_at(source_device);
  if (&to_device == &from_device) return copy_device_to_device(queue, destination, source, bytes);
  const Place to = locate(to_device, destination, bytes);
  const Place from = locate(from_device, source, bytes);
  if (bytes == 0) fail(OB_INVALID_ARGUMENT, "A copy of 0 bytes.");
  if (reach_each_other(to_device, from_device)) {
    const OpenCL* api = queue->device.api;
    enqueue(queue, "clEnqueueSVMMemcpy", [=](cl_command_queue commands, cl_event* event) {
      return api->clEnqueueSVMMemcpy(commands, CL_FALSE, to.pointer, from.pointer, bytes, 0,
                                     nullptr, event);
    });
  } else {
    {
      std::lock_guard lock(queue->mutex);
      check_not_recording(queue, "copies between devices that do not reach each other's memory");
    }
    copy_through_host(queue, to_device, destination, from_device, source, bytes);
  }
  return OB_OK;
}

}  // namespace ocl
