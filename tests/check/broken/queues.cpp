// Faults of queues, callbacks, failures and graphs.
#include "broken.h"

#include <pthread.h>

#include <map>
#include <set>
#include <string>

using namespace broken;

namespace {

struct Call {
  ob_host_function function;
  void* argument;
};

std::mutex lock;
std::map<ob_queue, Call> held;  // by queue
std::set<ob_queue> queues;

void on_thread(Call call, int milliseconds) {
  struct Later {
    Call call;
    int milliseconds;
  };
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void* argument) -> void* {
        auto* later = static_cast<Later*>(argument);
        sleep_ms(later->milliseconds);
        later->call.function(later->call.argument);
        delete later;
        return nullptr;
      },
      new Later{call, milliseconds});
  pthread_detach(thread);
}

std::recursive_mutex global_lock;

}  // namespace

FAULT("queue_reorders") {  // small copies to the host run at once
  table.copy_device_to_host = [](void*, ob_queue queue, void* destination, ob_address source,
                                 uint64_t bytes) {
    if (bytes != 1) return BASE(copy_device_to_host, queue, destination, source, bytes);
    std::memcpy(destination, reinterpret_cast<const void*>(source), 1);
    return ob_status(OB_OK);
  };
}
FAULT("one_queue_for_all") {
  static ob_queue only[2];
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    if (wanted->device < 0 || wanted->device > 1) return BASE(queue_create, wanted, queue);
    std::lock_guard guard(lock);
    ob_status status = OB_OK;
    if (only[wanted->device] == nullptr) status = BASE(queue_create, wanted, &only[wanted->device]);
    *queue = only[wanted->device];
    return status;
  };
  table.queue_destroy = [](void*, ob_queue queue) { return BASE(queue_synchronize, queue); };
}
FAULT("queues_are_always_ready") {
  table.queue_query = [](void*, ob_queue) { return ob_status(OB_OK); };
}
FAULT("synchronize_returns_early") {
  table.queue_synchronize = [](void*, ob_queue) { return ob_status(OB_OK); };
}
FAULT("synchronize_waits_until_idle") {
  table.queue_synchronize = [](void*, ob_queue queue) {
    ob_status status = BASE(queue_synchronize, queue);
    while (status == OB_OK && BASE(queue_query, queue) == OB_NOT_READY) sleep_ms(1);
    return status;
  };
}
FAULT("device_synchronize_does_nothing") {
  table.device_synchronize = [](void*, int32_t device) {
    int32_t count = 0;
    BASE(device_count, &count);
    return device < 0 || device >= count ? BASE(device_synchronize, device) : OB_OK;
  };
}
FAULT("device_synchronize_waits_for_all") {
  table.device_synchronize = [](void*, int32_t device) {
    const ob_status status = BASE(device_synchronize, device);
    return status != OB_OK ? status : BASE(device_synchronize, 1 - device);
  };
}
FAULT("device_synchronize_holds_a_lock") {
  table.device_synchronize = [](void*, int32_t device) {
    std::lock_guard guard(lock);
    return BASE(device_synchronize, device);
  };
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    std::lock_guard guard(lock);
    return BASE(queue_create, wanted, queue);
  };
}
FAULT("destroy_does_not_wait") {
  table.fill = [](void*, ob_queue queue, ob_address destination, const void* pattern,
                  uint32_t pattern_bytes, uint64_t bytes) {
    BASE(host_callback, queue, [](void*) { sleep_ms(2); }, nullptr);
    return BASE(fill, queue, destination, pattern, pattern_bytes, bytes);
  };
  table.queue_destroy = [](void*, ob_queue queue) {
    const Call destroy = {[](void* queue) { BASE(queue_destroy, static_cast<ob_queue>(queue)); },
                          queue};
    on_thread(destroy, 0);
    return ob_status(OB_OK);
  };
}
FAULT("any_priority") {
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    ob_queue_description other = *wanted;
    other.priority = 0;
    return BASE(queue_create, &other, queue);
  };
}

// ---- Callbacks

FAULT("callback_holds_a_lock") {
  table.host_callback = [](void*, ob_queue queue, ob_host_function function, void* argument) {
    const auto run = [](void* argument) {
      std::lock_guard guard(global_lock);
      auto* call = static_cast<Call*>(argument);
      call->function(call->argument);
      delete call;
    };
    return BASE(host_callback, queue, run, new Call{function, argument});
  };
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    std::lock_guard guard(global_lock);
    return BASE(queue_create, wanted, queue);
  };
  table.event_synchronize = [](void*, ob_event event) {
    std::lock_guard guard(global_lock);
    return BASE(event_synchronize, event);
  };
}
FAULT("callback_runs_in_the_call") {
  table.host_callback = [](void*, ob_queue queue, ob_host_function function, void* argument) {
    const ob_status status = BASE(queue_synchronize, queue);
    function(argument);
    return status;
  };
}
FAULT("callbacks_out_of_order") {  // the first of two waits for the second
  table.host_callback = [](void*, ob_queue queue, ob_host_function function, void* argument) {
    std::lock_guard guard(lock);
    const auto found = held.find(queue);
    if (found == held.end()) {
      held[queue] = {function, argument};
      return ob_status(OB_OK);
    }
    const Call first = found->second;
    held.erase(found);
    const ob_status status = BASE(host_callback, queue, function, argument);
    return status == OB_OK ? BASE(host_callback, queue, first.function, first.argument) : status;
  };
  table.queue_synchronize = [](void*, ob_queue queue) {
    {
      std::lock_guard guard(lock);
      const auto found = held.find(queue);
      if (found != held.end()) {
        BASE(host_callback, queue, found->second.function, found->second.argument);
        held.erase(found);
      }
    }
    return BASE(queue_synchronize, queue);
  };
}
FAULT("work_does_not_wait_for_callbacks") {
  table.host_callback = [](void*, ob_queue queue, ob_host_function function, void* argument) {
    const auto run = [](void* argument) {
      auto* call = static_cast<Call*>(argument);
      on_thread(*call, 0);
      delete call;
    };
    return BASE(host_callback, queue, run, new Call{function, argument});
  };
}
FAULT("callbacks_run_twice") {
  table.host_callback = [](void*, ob_queue queue, ob_host_function function, void* argument) {
    const ob_status status = BASE(host_callback, queue, function, argument);
    return status == OB_OK ? BASE(host_callback, queue, function, argument) : status;
  };
}

// ---- Failures

FAULT("failure_is_swallowed") {
  table.queue_synchronize = [](void*, ob_queue queue) {
    BASE(queue_synchronize, queue);
    return ob_status(OB_OK);
  };
}
FAULT("failure_is_reported_for_ever") {
  static std::map<ob_queue, ob_status> failed;
  table.queue_synchronize = [](void*, ob_queue queue) {
    const ob_status status = BASE(queue_synchronize, queue);
    std::lock_guard guard(lock);
    if (status != OB_OK) failed[queue] = status;
    return failed.count(queue) != 0 ? fail(failed[queue], "It failed before.") : status;
  };
}
FAULT("failure_of_another_queue") {
  static std::atomic<bool> failed{false};
  table.inject_failure = [](void*, ob_queue queue) {
    failed = true;
    return BASE(inject_failure, queue);
  };
  table.queue_synchronize = [](void*, ob_queue queue) {
    const ob_status status = BASE(queue_synchronize, queue);
    return failed.exchange(false) ? fail(OB_ERROR, "Some work failed.") : status;
  };
}
FAULT("events_behind_failures_never_happen") {
  static std::set<ob_queue> failed;
  static std::set<ob_event> lost;
  table.inject_failure = [](void*, ob_queue queue) {
    std::lock_guard guard(lock);
    failed.insert(queue);
    return BASE(inject_failure, queue);
  };
  table.event_record = [](void*, ob_event event, ob_queue queue) {
    std::lock_guard guard(lock);
    if (failed.count(queue) != 0) lost.insert(event);
    return BASE(event_record, event, queue);
  };
  table.event_synchronize = [](void*, ob_event event) {
    for (;;) {
      {
        std::lock_guard guard(lock);
        if (lost.count(event) == 0) break;
      }
      sleep_ms(10);
    }
    return BASE(event_synchronize, event);
  };
}
FAULT("one_last_error") {
  static std::string message;
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    const ob_status status = BASE(queue_create, wanted, queue);
    std::lock_guard guard(lock);
    if (status != OB_OK) message = base.last_error(base.context);
    return status;
  };
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    const ob_status status = BASE(allocate, wanted, address);
    std::lock_guard guard(lock);
    if (status != OB_OK) message = base.last_error(base.context);
    return status;
  };
  table.last_error = [](void*) -> const char* {
    static thread_local std::string copy;
    std::lock_guard guard(lock);
    copy = message;
    return copy.c_str();
  };
}

// ---- Graphs

FAULT("capture_runs_work") {
  table.graph_begin = [](void*, ob_queue) { return ob_status(OB_OK); };
  table.graph_end = [](void*, ob_queue queue, ob_graph* graph) {
    const ob_status status = BASE(graph_begin, queue);
    return status == OB_OK ? BASE(graph_end, queue, graph) : status;
  };
}
FAULT("graphs_run_once") {
  static std::set<ob_graph> ran;
  table.graph_launch = [](void*, ob_queue queue, ob_graph graph) {
    return ran.insert(graph).second ? BASE(graph_launch, queue, graph) : OB_OK;
  };
}

// ---- Sharing and communication

FAULT("import_is_a_copy") {
  table.memory_import = [](void*, int32_t device, const ob_memory_handle* handle,
                           ob_address* address) {
    ob_address shared = 0;
    const ob_status status = BASE(memory_import, device, handle, &shared);
    if (status != OB_OK) return status;
    ob_allocation wanted = {sizeof wanted, device, handle->bytes, OB_ALLOCATION_SHAREABLE};
    BASE(allocate, &wanted, address);
    std::memcpy(reinterpret_cast<void*>(*address), reinterpret_cast<void*>(shared), handle->bytes);
    return status;
  };
  table.memory_close = [](void*, int32_t device, ob_address address) {
    return BASE(deallocate, device, address);
  };
}
FAULT("averages_are_sums") {
  table.communicate = [](void*, ob_queue queue, ob_communicator communicator,
                         const ob_communication* description) {
    ob_communication other = *description;
    if (other.reduction == OB_REDUCTION_AVERAGE) other.reduction = OB_REDUCTION_SUM;
    return BASE(communicate, queue, communicator, &other);
  };
}
FAULT("broadcast_of_rank_0") {
  table.communicate = [](void*, ob_queue queue, ob_communicator communicator,
                         const ob_communication* description) {
    ob_communication other = *description;
    if (other.kind == OB_COMMUNICATION_BROADCAST) other.peer = 0;
    return BASE(communicate, queue, communicator, &other);
  };
}
