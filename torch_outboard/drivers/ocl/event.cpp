// Events, order between queues, and host callbacks.
//
// Within a device a queue waits for an event of another queue by itself. Other devices have other
// contexts, whose events mean nothing here: a user event of the waiting context stands in, and a
// thread of ours completes it when the awaited event has happened.
#include <utility>

#include "ocl.h"

struct ob_event_t {
  ocl::Device& device;
  uint32_t flags;
  std::mutex mutex;
  ocl::EventReference latest;  // empty: never recorded
};

namespace ocl {
namespace {

EventReference latest_of(ob_event event) {
  std::lock_guard lock(event->mutex);
  return event->latest;
}

EventReference make_user_event(const Device& device) {
  cl_int code = CL_SUCCESS;
  const cl_event event = device.api->clCreateUserEvent(device.context, &code);
  check(code, "clCreateUserEvent");
  return {device.api, event};
}

// Never with a failure, for which PoCL ends the process: the queue where work failed reports it.
// Nobody can be told if the call fails, which OpenCL has no reason for.
void complete(const OpenCL& api, const EventReference& user_event) noexcept {
  (void)api.clSetUserEventStatus(user_event.get(), CL_COMPLETE);
}

struct AfterEvent {
  std::function<void()> task;
};

// Runs on a thread of OpenCL's, where functions of OpenCL must not be called.
void on_event(cl_event, cl_int, void* argument) {
  const std::unique_ptr<AfterEvent> after(static_cast<AfterEvent*>(argument));
  post(std::move(after->task));
}

// A marker, with a reference of its own for the caller. The caller holds the queue's mutex.
EventReference enqueue_marker(ob_queue queue) {
  check_usable();
  cl_event marker = nullptr;
  check(queue->device.api->clEnqueueMarkerWithWaitList(queue->commands, 0, nullptr, &marker),
        "clEnqueueMarkerWithWaitList");
  set_last(queue, marker);
  return queue->last;
}

// The caller holds the queue's mutex.
void enqueue_barrier(ob_queue queue, const EventReference& awaited) {
  check_usable();
  const cl_event event = awaited.get();
  cl_event barrier = nullptr;
  check(queue->device.api->clEnqueueBarrierWithWaitList(queue->commands, 1, &event, &barrier),
        "clEnqueueBarrierWithWaitList");
  set_last(queue, barrier);
}

void flush(ob_queue queue) { check(queue->device.api->clFlush(queue->commands), "clFlush"); }

}  // namespace

void run_after(const EventReference& event, const OpenCL& api, std::function<void()> task) {
  start_workers();
  auto after = std::make_unique<AfterEvent>(AfterEvent{std::move(task)});
  check(api.clSetEventCallback(event.get(), CL_COMPLETE, &on_event, after.get()),
        "clSetEventCallback");
  after.release();
}

EventReference mark(ob_queue queue) {
  std::lock_guard lock(queue->mutex);
  EventReference marker = enqueue_marker(queue);
  flush(queue);  // or other queues might wait forever for what was never sent to the device
  return marker;
}

void wait_for(ob_queue queue, const EventReference& event, const Device& owner) {
  if (event.status() <= CL_COMPLETE) return;  // a failure is reported where it happened
  if (&owner == &queue->device) {
    std::lock_guard lock(queue->mutex);
    enqueue_barrier(queue, event);
    return;
  }
  const OpenCL& api = *queue->device.api;
  const EventReference stand_in = make_user_event(queue->device);
  run_after(event, *owner.api, [stand_in, &api] { complete(api, stand_in); });
  std::lock_guard lock(queue->mutex);
  enqueue_barrier(queue, stand_in);
}

ob_status event_create(const ob_event_description* wanted, ob_event* event) {
  *event = new ob_event_t{device_at(wanted->device), wanted->flags, {}, {}};
  return OB_OK;
}

ob_status event_destroy(ob_event event) {
  delete event;
  return OB_OK;
}

ob_status event_record(ob_event event, ob_queue queue) {
  if (&event->device != &queue->device) {
    fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded on device %d.",
         event->device.index, queue->device.index);
  }
  EventReference marker = mark(queue);
  std::lock_guard lock(event->mutex);
  std::swap(event->latest, marker);
  return OB_OK;
}

ob_status event_wait(ob_queue queue, ob_event event) {
  const EventReference latest = latest_of(event);
  if (latest) wait_for(queue, latest, event->device);
  return OB_OK;
}

ob_status event_query(ob_event event) {
  const EventReference latest = latest_of(event);
  return !latest || latest.status() <= CL_COMPLETE ? OB_OK : OB_NOT_READY;
}

ob_status event_synchronize(ob_event event) {
  const EventReference latest = latest_of(event);
  if (latest) latest.wait();
  return OB_OK;
}

ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds) {
  if ((start->flags & end->flags & OB_EVENT_TIMING) == 0) {
    fail(OB_INVALID_ARGUMENT, "Both events must be created with timing enabled.");
  }
  if (&start->device != &end->device) {
    fail(OB_INVALID_ARGUMENT, "The events belong to devices %d and %d.", start->device.index,
         end->device.index);
  }
  const EventReference from = latest_of(start);
  const EventReference to = latest_of(end);
  if (!from || !to) fail(OB_INVALID_ARGUMENT, "Both events must have been recorded.");
  if (from.status() > CL_COMPLETE || to.status() > CL_COMPLETE) return OB_NOT_READY;
  const OpenCL& api = *start->device.api;
  const auto time_of = [&](const EventReference& event) {
    cl_ulong nanoseconds = 0;
    check(api.clGetEventProfilingInfo(event.get(), CL_PROFILING_COMMAND_END, sizeof nanoseconds,
                                      &nanoseconds, nullptr),
          "clGetEventProfilingInfo");
    return static_cast<int64_t>(nanoseconds);
  };
  *milliseconds = 1e-6 * static_cast<double>(time_of(to) - time_of(from));
  return OB_OK;
}

// Behind a marker, later work waits for a user event that is complete when the function returns.
ob_status host_callback(ob_queue queue, ob_host_function function, void* argument) {
  if (function == nullptr) fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  const OpenCL& api = *queue->device.api;
  const EventReference returned = make_user_event(queue->device);
  std::lock_guard lock(queue->mutex);
  const EventReference marker = enqueue_marker(queue);
  enqueue_barrier(queue, returned);
  try {
    run_after(marker, api, [function, argument, returned, &api] {
      function(argument);
      complete(api, returned);
    });
  } catch (...) {
    complete(api, returned);  // the function will not be called
    throw;
  }
  flush(queue);
  return OB_OK;
}

}  // namespace ocl
