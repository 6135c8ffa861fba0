// Queues. A queue stores the event of its last command, for queries and waits. Where events cost
// time, commands have none, and a marker behind them gets one when it is needed. Waits, queries and
// recordings of events flush commands to the device, not each command. While a queue records a
// graph, its commands go to the graph instead.
#include <algorithm>
#include <utility>

#include "ocl.h"

ob_queue_t::~ob_queue_t() {
  if (commands != nullptr) device.api->clReleaseCommandQueue(commands);
}

namespace ocl {

std::atomic<bool> g_ended{false};

EventReference::EventReference(const EventReference& other)
    : api_(other.api_), event_(other.event_) {
  if (event_ != nullptr) api_->clRetainEvent(event_);
}

EventReference::EventReference(EventReference&& other) noexcept
    : api_(other.api_), event_(std::exchange(other.event_, nullptr)) {}

EventReference& EventReference::operator=(EventReference other) noexcept {
  std::swap(api_, other.api_);
  std::swap(event_, other.event_);
  return *this;
}

EventReference::~EventReference() {
  if (event_ != nullptr) api_->clReleaseEvent(event_);
}

cl_int EventReference::status() const {
  cl_int status = CL_COMPLETE;
  check(api_->clGetEventInfo(event_, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                             nullptr),
        "clGetEventInfo");
  return status;
}

void EventReference::wait() const {
  const cl_int code = api_->clWaitForEvents(1, &event_);
  if (code != CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST) {
    check(code, "clWaitForEvents");
    return;
  }
  fail(OB_ERROR, "Work on a queue failed with %s.", code_name(status()).c_str());
}

void check_usable() {
  if (g_ended.load(std::memory_order_relaxed)) fail(OB_ERROR, "The ocl driver has ended.");
}

void set_last(ob_queue queue, cl_event event) {
  queue->last = EventReference(queue->device.api, event);
  queue->unmarked = false;
}

const EventReference& last_of(ob_queue queue) {
  if (queue->unmarked) {
    cl_event marker = nullptr;
    check(queue->device.api->clEnqueueMarkerWithWaitList(queue->commands, 0, nullptr, &marker),
          "clEnqueueMarkerWithWaitList");
    set_last(queue, marker);
  }
  return queue->last;
}

bool is_idle(ob_queue queue) {
  if (!last_of(queue)) return true;
  const cl_int status = queue->last.status();
  if (status == CL_COMPLETE) queue->last = {};
  return status <= CL_COMPLETE;  // a failure stays, for queue_synchronize to report it
}

namespace {

cl_command_queue create_commands(Device& device, int32_t priority, bool timed) {
  const OpenCL& api = *device.api;
  const cl_bitfield profiling = timed ? CL_QUEUE_PROFILING_ENABLE : cl_bitfield{0};
  cl_command_queue commands = nullptr;
  cl_int code = CL_SUCCESS;
  if (device.has_priorities) {
    const cl_properties hint = priority < 0   ? CL_QUEUE_PRIORITY_HIGH_KHR
                               : priority > 0 ? CL_QUEUE_PRIORITY_LOW_KHR
                                              : CL_QUEUE_PRIORITY_MED_KHR;
    const cl_properties properties[] = {CL_QUEUE_PROPERTIES, profiling, CL_QUEUE_PRIORITY_KHR, hint,
                                        0};
    commands = api.clCreateCommandQueueWithProperties(device.context, device.id, properties, &code);
    check(code, "clCreateCommandQueueWithProperties");
  } else {
    commands = api.clCreateCommandQueue(device.context, device.id, profiling, &code);
    check(code, "clCreateCommandQueue");
  }
  return commands;
}

}  // namespace

std::unique_ptr<ob_queue_t> make_queue(Device& device, int32_t priority) {
  auto queue = std::make_unique<ob_queue_t>(device, priority);
  // The time of an event may be queried after its recording.
  queue->timed = !device.late_events;
  queue->commands = create_commands(device, priority, queue->timed);
  return queue;
}

// Only a new OpenCL queue can have times: it continues behind the old one.
void be_timed(ob_queue queue) {
  if (queue->timed) return;
  const OpenCL& api = *queue->device.api;
  const EventReference last = last_of(queue);
  cl_command_queue commands = create_commands(queue->device, queue->priority, true);
  cl_int code = CL_SUCCESS;
  if (last) {
    const cl_event event = last.get();
    code = api.clFlush(queue->commands);
    if (code == CL_SUCCESS) {
      code = api.clEnqueueBarrierWithWaitList(commands, 1, &event, nullptr);
    }
  }
  if (code != CL_SUCCESS) {
    api.clReleaseCommandQueue(commands);
    check(code, "clEnqueueBarrierWithWaitList");
  }
  std::swap(queue->commands, commands);
  queue->timed = true;
  check(api.clReleaseCommandQueue(commands), "clReleaseCommandQueue");
}

ob_status queue_create(const ob_queue_description* wanted, ob_queue* queue) {
  Device& device = device_at(wanted->device);
  const int32_t priority = wanted->priority;
  const ob_device_properties& p = device.properties;
  if (priority < p.greatest_priority || priority > p.least_priority) {
    fail(OB_INVALID_ARGUMENT, "Priority %d is not between %d and %d.", priority,
         p.greatest_priority, p.least_priority);
  }
  auto created = make_queue(device, priority);
  std::lock_guard lock(device.queues_mutex);
  device.queues.push_back(created.get());
  *queue = created.release();
  return OB_OK;
}

ob_status queue_query(ob_queue queue) {
  std::lock_guard lock(queue->mutex);
  if (is_idle(queue)) return OB_OK;
  // A caller that only polls must see the work start.
  check(queue->device.api->clFlush(queue->commands), "clFlush");
  return OB_NOT_READY;
}

ob_status queue_synchronize(ob_queue queue) {
  EventReference last;
  {
    std::lock_guard lock(queue->mutex);
    last = last_of(queue);
  }
  if (!last) return OB_OK;
  const auto forget = [&] {
    std::lock_guard lock(queue->mutex);
    if (queue->last.get() == last.get()) queue->last = {};
  };
  try {
    last.wait();
  } catch (const Failure&) {
    forget();  // so that it is reported once
    throw;
  }
  forget();
  return OB_OK;
}

ob_status queue_destroy(ob_queue queue) {
  bool known = false;
  for (const auto& device : devices()) {
    std::lock_guard lock(device->queues_mutex);
    const auto found = std::find(device->queues.begin(), device->queues.end(), queue);
    if (found == device->queues.end()) continue;
    device->queues.erase(found);
    known = true;
    break;
  }
  if (!known) {
    fail(OB_INVALID_ARGUMENT, "%p is not a queue of the ocl driver.", static_cast<void*>(queue));
  }
  const std::unique_ptr<ob_queue_t> destroyed(queue);
  queue_synchronize(queue);
  queue->last = {};
  check(queue->device.api->clReleaseCommandQueue(std::exchange(queue->commands, nullptr)),
        "clReleaseCommandQueue");
  return OB_OK;
}

ob_status device_synchronize(int32_t index) {
  Device& device = device_at(index);
  // Queues may be created and destroyed during the wait.
  std::vector<EventReference> pending;
  {
    std::lock_guard lock(device.queues_mutex);
    for (ob_queue queue : device.queues) {
      std::lock_guard queue_lock(queue->mutex);
      if (is_idle(queue)) continue;
      check(device.api->clFlush(queue->commands), "clFlush");
      pending.push_back(queue->last);
    }
  }
  for (const EventReference& event : pending) event.wait();
  return OB_OK;
}

// The handle stays valid: be_timed does not replace a queue that has times.
ob_status queue_native_handle(ob_queue queue, void** handle) {
  std::lock_guard lock(queue->mutex);
  be_timed(queue);
  *handle = queue->commands;
  return OB_OK;
}

// ---- Graphs
//
// OpenCL's command buffers (cl_khr_command_buffer) are provisional, and neither PoCL 3.0 nor
// Intel's driver has them. So a graph is a list of calls, with a kernel object for each launch,
// which holds the arguments.

void check_not_recording(ob_queue queue, const char* what) {
  if (queue->graph == nullptr) return;
  fail(OB_UNSUPPORTED, "The ocl driver cannot capture %s in a graph.", what);
}

ob_status graph_begin(ob_queue queue) {
  auto graph = std::make_unique<ob_graph_t>(queue->device);
  std::lock_guard lock(queue->mutex);
  if (queue->graph != nullptr) {
    fail(OB_INVALID_ARGUMENT, "The queue is already capturing a graph.");
  }
  queue->graph = std::move(graph);
  return OB_OK;
}

ob_status graph_end(ob_queue queue, ob_graph* graph) {
  std::lock_guard lock(queue->mutex);
  if (queue->graph == nullptr) fail(OB_INVALID_ARGUMENT, "The queue is not capturing a graph.");
  *graph = queue->graph.release();
  return OB_OK;
}

ob_status graph_launch(ob_queue queue, ob_graph graph) {
  if (&queue->device != &graph->device) {
    fail(OB_INVALID_ARGUMENT, "A graph of device %d cannot be launched on device %d.",
         graph->device.index, queue->device.index);
  }
  std::lock_guard lock(queue->mutex);
  for (const auto& work : graph->work) work(queue);
  return OB_OK;
}

// OpenCL keeps kernels until their launches are done.
ob_status graph_release(ob_graph graph) {
  delete graph;
  return OB_OK;
}

void set_queue_functions(ob_driver& table) {
  OB_SET(table, queue_create);
  OB_SET(table, queue_destroy);
  OB_SET(table, queue_query);
  OB_SET(table, queue_synchronize);
  OB_SET(table, queue_native_handle);
  OB_SET(table, graph_begin);
  OB_SET(table, graph_end);
  OB_SET(table, graph_launch);
  OB_SET(table, graph_release);
}

}  // namespace ocl
