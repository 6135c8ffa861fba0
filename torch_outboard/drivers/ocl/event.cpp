// Events, order between queues, and host callbacks.
//
// Within a device OpenCL orders queues by events. Devices have separate contexts and cannot wait
// for each other's events: a user event of the waiting context replaces the event, and a thread of
// the driver completes it.
#include <common/system.h>

#include <condition_variable>
#include <deque>
#include <utility>

#include "ocl.h"

struct ob_event_t {
  ocl::Device& device;
  uint32_t flags;
  std::mutex mutex;
  ocl::EventReference latest;  // empty: never recorded
  bool at_start = false;       // the event has the start time of the command, else the end time
};

namespace ocl {

// ---- Workers
//
// Threads for host callbacks and for work that must not run inside a callback of OpenCL. A task
// never waits for another one: if no thread is free, one more starts.
//
// drivers/queues cannot run these tasks: a queue there is a thread that runs its own commands in
// order, blocks while it waits for an event, and ends with the queue. Here OpenCL orders and runs
// the commands. A task belongs to no queue: it may block until a task of another queue runs, and
// may outlive its queue. A thread per OpenCL queue would also cost programs threads that have many
// streams and no callbacks.

namespace {

// Never destroyed: OpenCL's threads may call back until the process ends.
struct Workers {
  std::mutex mutex;
  std::condition_variable task_arrived;
  std::deque<std::function<void()>> tasks;
  std::vector<pthread_t> threads;
  size_t idle = 0;
  bool stopping = false;
};

Workers& workers() {
  static auto* instance = new Workers;
  return *instance;
}

void* run_worker(void*) {
  Workers& w = workers();
  std::unique_lock lock(w.mutex);
  for (;;) {
    ++w.idle;
    w.task_arrived.wait(lock, [&] { return !w.tasks.empty() || w.stopping; });
    --w.idle;
    if (w.tasks.empty()) return nullptr;
    std::function<void()> task = std::move(w.tasks.front());
    w.tasks.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

// The caller holds the mutex. If no thread can be started, tasks wait for the existing ones.
void add_worker(Workers& w) {
  pthread_t thread;
  if (start_thread(&thread, "outboard_ocl", run_worker, nullptr) == 0) w.threads.push_back(thread);
}

// Starts the first thread, so that `post` cannot fail.
void start_workers() {
  Workers& w = workers();
  std::lock_guard lock(w.mutex);
  if (w.threads.empty()) add_worker(w);
  if (w.threads.empty()) fail(OB_ERROR, "A thread for host callbacks could not be started.");
}

}  // namespace

void post(std::function<void()> task) noexcept {
  Workers& w = workers();
  std::lock_guard lock(w.mutex);
  w.tasks.push_back(std::move(task));
  // A thread that was woken and does not run yet still counts as idle.
  if (w.tasks.size() > w.idle) add_worker(w);
  w.task_arrived.notify_one();
}

void stop_workers() {
  Workers& w = workers();
  std::vector<pthread_t> threads;
  {
    std::lock_guard lock(w.mutex);
    w.stopping = true;
    threads.swap(w.threads);
    w.task_arrived.notify_all();
  }
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
}

// ---- Clocks
//
// OpenCL 2.1 has a function that reads the clocks of device and host together, but few platforms
// have it. Instead the host reads its clock before and after an enqueue, whose time on the device
// is the command's CL_PROFILING_COMMAND_QUEUED.

namespace {

constexpr int kTries = 5;
// Nanoseconds in which the clocks of a machine drift apart by some microseconds.
constexpr int64_t kMeasureAgainAfter = 10'000'000'000;

int64_t host_time() { return static_cast<int64_t>(::nanoseconds()); }

// The time of a completed command, in nanoseconds of the device; `what`: CL_PROFILING_COMMAND_*.
int64_t device_time(const Device& device, const EventReference& event, cl_uint what) {
  cl_ulong nanoseconds = 0;
  check(device.api->clGetEventProfilingInfo(event.get(), what, sizeof nanoseconds, &nanoseconds,
                                            nullptr),
        "clGetEventProfilingInfo");
  return static_cast<int64_t>(nanoseconds);
}

// The host's time minus the device's.
int64_t measure_offset(Device& device) {
  const std::unique_ptr<ob_queue_t> queue = make_queue(device, 0);
  std::optional<int64_t> offset;
  int64_t best = INT64_MAX;
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = host_time();
    const EventReference marker = mark(queue.get(), true);
    const int64_t after = host_time();
    marker.wait();
    const int64_t queued = device_time(device, marker, CL_PROFILING_COMMAND_QUEUED);
    if (before <= queued && queued <= after) {
      offset = 0;  // it is the same clock
      break;
    }
    if (after - before >= best) continue;
    best = after - before;
    offset = before + best / 2 - queued;
  }
  return *offset;
}

// A time of the device on the host's CLOCK_MONOTONIC.
int64_t to_host_time(Device& device, int64_t nanoseconds) {
  std::lock_guard lock(device.clock_mutex);
  const int64_t now = host_time();
  if (device.clock_measured == 0 || now - device.clock_measured > kMeasureAgainAfter) {
    device.clock_offset = measure_offset(device);
    device.clock_measured = now;
  }
  return nanoseconds + device.clock_offset;
}

// ---- Events

EventReference latest_of(ob_event event) {
  std::lock_guard lock(event->mutex);
  return event->latest;
}

struct Recording {
  EventReference event;
  bool at_start;

  int64_t time(const Device& device) const {
    return device_time(device, event,
                       at_start ? CL_PROFILING_COMMAND_START : CL_PROFILING_COMMAND_END);
  }
};

// Of an event with a time. Throws if it was never recorded.
Recording timed_recording_of(ob_event event) {
  if ((event->flags & OB_EVENT_TIMING) == 0) {
    fail(OB_INVALID_ARGUMENT, "The event must be created with timing enabled.");
  }
  std::lock_guard lock(event->mutex);
  if (!event->latest) fail(OB_INVALID_ARGUMENT, "The event must have been recorded.");
  return {event->latest, event->at_start};
}

void record(ob_event event, EventReference recorded, bool at_start) {
  std::lock_guard lock(event->mutex);
  std::swap(event->latest, recorded);
  event->at_start = at_start;
}

// Never with a failure, for which PoCL ends the process: the queue where work failed reports it.
// A failure cannot be reported; OpenCL has no reason for one.
void complete(const OpenCL& api, const EventReference& user_event) noexcept {
  (void)api.clSetUserEventStatus(user_event.get(), CL_COMPLETE);
}

using Task = std::function<void()>;

// Runs on a thread of OpenCL, which must not call functions of OpenCL.
void on_event(cl_event, cl_int, void* argument) {
  const std::unique_ptr<Task> task(static_cast<Task*>(argument));
  post(std::move(*task));
}

// A marker, with a reference for the caller. The caller holds the queue's mutex.
EventReference enqueue_marker(ob_queue queue) {
  check_usable();
  check_not_recording(queue, "events");
  cl_event marker = nullptr;
  check(queue->device.api->clEnqueueMarkerWithWaitList(queue->commands, 0, nullptr, &marker),
        "clEnqueueMarkerWithWaitList");
  set_last(queue, marker);
  return queue->last;
}

// The caller holds the queue's mutex.
void enqueue_barrier(ob_queue queue, const EventReference& awaited) {
  check_usable();
  check_not_recording(queue, "waits for events");
  const cl_event event = awaited.get();
  cl_event barrier = nullptr;
  check(queue->device.api->clEnqueueBarrierWithWaitList(queue->commands, 1, &event, &barrier),
        "clEnqueueBarrierWithWaitList");
  set_last(queue, barrier);
}

void flush(ob_queue queue) { check(queue->device.api->clFlush(queue->commands), "clFlush"); }

}  // namespace

EventReference make_user_event(const Device& device) {
  cl_int code = CL_SUCCESS;
  const cl_event event = device.api->clCreateUserEvent(device.context, &code);
  check(code, "clCreateUserEvent");
  return {device.api, event};
}

void run_after(const EventReference& event, const OpenCL& api, std::function<void()> task) {
  start_workers();
  auto after = std::make_unique<Task>(std::move(task));
  check(api.clSetEventCallback(event.get(), CL_COMPLETE, &on_event, after.get()),
        "clSetEventCallback");
  after.release();
}

EventReference mark(ob_queue queue, bool timed) {
  std::lock_guard lock(queue->mutex);
  if (timed) be_timed(queue);
  EventReference marker = enqueue_marker(queue);
  flush(queue);  // else other queues might wait forever for unsent work
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
  *event = new ob_event_t{device_at(wanted->device), wanted->flags, {}, {}, false};
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
  record(event, mark(queue, (event->flags & OB_EVENT_TIMING) != 0), false);
  return OB_OK;
}

void check_launch_event(ob_event event, const Device& device) {
  if (event == nullptr) return;
  if (&event->device != &device) {
    fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded by a launch on device %d.",
         event->device.index, device.index);
  }
  if ((event->flags & OB_EVENT_TIMING) == 0) {
    fail(OB_INVALID_ARGUMENT, "An event of a launch must be created with timing enabled.");
  }
}

void record_launch(ob_event event, const EventReference& kernel, bool start) {
  if (event != nullptr) record(event, kernel, start);
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
  if (&start->device != &end->device) {
    fail(OB_INVALID_ARGUMENT, "The events belong to devices %d and %d.", start->device.index,
         end->device.index);
  }
  const Recording from = timed_recording_of(start);
  const Recording to = timed_recording_of(end);
  if (from.event.status() > CL_COMPLETE || to.event.status() > CL_COMPLETE) return OB_NOT_READY;
  const Device& device = start->device;
  *milliseconds = 1e-6 * static_cast<double>(to.time(device) - from.time(device));
  return OB_OK;
}

ob_status event_time(ob_event event, uint64_t* nanoseconds) {
  const Recording recording = timed_recording_of(event);
  if (recording.event.status() > CL_COMPLETE) return OB_NOT_READY;
  Device& device = event->device;
  *nanoseconds = static_cast<uint64_t>(to_host_time(device, recording.time(device)));
  return OB_OK;
}

// Behind a marker, later work waits for a user event that is complete when the function returns.
ob_status host_callback(ob_queue queue, ob_host_function function, void* argument) {
  if (function == nullptr) fail(OB_INVALID_ARGUMENT, "The callback is NULL.");
  const OpenCL& api = *queue->device.api;
  std::lock_guard lock(queue->mutex);
  if (queue->graph != nullptr) {
    queue->graph->work.emplace_back([=](ob_queue q) { host_callback(q, function, argument); });
    return OB_OK;
  }
  const EventReference returned = make_user_event(queue->device);
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

void set_event_functions(ob_driver& table) {
  OB_SET(table, event_create);
  OB_SET(table, event_destroy);
  OB_SET(table, event_record);
  OB_SET(table, event_wait);
  OB_SET(table, event_query);
  OB_SET(table, event_synchronize);
  OB_SET(table, event_elapsed);
  OB_SET(table, event_time);
  OB_SET(table, host_callback);
}

}  // namespace ocl
