// Queues: a list of commands and a worker thread that runs them in order; graphs of commands.
#include <common/system.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "command.h"

struct ob_graph_t {
  const int32_t device;
  std::vector<queues::Command> commands = {};
};

struct ob_queue_t {
  explicit ob_queue_t(int32_t device) : device(device) {}

  const int32_t device;
  std::mutex mutex;
  std::condition_variable work_arrived, work_done;
  std::deque<queues::Command> commands;
  // Written with the mutex, read without: two loads tell that a queue is idle.
  std::atomic<uint64_t> submitted = 0, completed = 0;
  std::atomic<bool> failed = false;  // since the last queue_synchronize; written and read likewise
  std::string failure;
  int waiting = 0;  // threads in queue_synchronize
  bool has_worker = false, stopping = false;
  pthread_t worker = {};
  std::unique_ptr<ob_graph_t> graph;  // that captures commands; NULL: none
};

namespace queues {

// ---- Commands

// Up to this size the calling thread runs copies and fills if the queue is idle.
constexpr uint64_t kShortBytes = 16 * 1024;

void Copy::run() const {
  for (uint64_t row = 0; row < rows; ++row) {
    std::memmove(destination + row * destination_pitch, source + row * source_pitch, row_bytes);
  }
}

bool Copy::is_short() const { return rows <= kShortBytes && row_bytes <= kShortBytes / rows; }

void Fill::run() const {
  if (pattern_bytes == 1) {
    std::memset(destination, pattern[0], bytes);
    return;
  }
  // Repeat the pattern in a tile that stays in the cache, then the tile.
  char tile[4096];
  const uint64_t tile_bytes = std::min<uint64_t>(bytes, sizeof tile);
  for (uint64_t i = 0; i < tile_bytes; i += pattern_bytes) {
    std::memcpy(tile + i, pattern, pattern_bytes);
  }
  for (uint64_t i = 0; i < bytes; i += tile_bytes) {
    std::memcpy(destination + i, tile, std::min(bytes - i, tile_bytes));
  }
}

bool Fill::is_short() const { return bytes <= kShortBytes; }

namespace {

// False after a failure, whose message is the last one of this thread.
bool run(const Command& work) {
  try {
    std::visit([](const auto& each) { each.run(); }, work);
    return true;
  } catch (...) {
    drivers::keep_exception();
    return false;
  }
}

bool is_short(const Command& work) {
  return std::visit([](const auto& each) { return each.is_short(); }, work);
}

template <class Kind>
bool is(const Command& work) {
  return std::holds_alternative<Kind>(work);
}

// ---- Queues

const char* g_driver_name = "";
int32_t g_device_count = 0;
// Never destroyed: threads use queues until the process ends.
std::mutex& g_queues_mutex = *new std::mutex;
std::vector<ob_queue>& g_queues = *new std::vector<ob_queue>;

bool is_idle(ob_queue queue) { return queue->completed == queue->submitted; }

// A short busy wait: after a task others mostly follow soon.
void look_for_work(ob_queue queue, std::unique_lock<std::mutex>& lock) {
  const uint64_t submitted = queue->submitted;
  lock.unlock();
  spin waiting = {};
  while (queue->submitted == submitted && keep_spinning(&waiting)) {
  }
  lock.lock();
}

// Stores the first failure. The caller holds the mutex, here and below.
void note_failure(ob_queue queue) {
  if (queue->failed) return;
  queue->failure = drivers::last_error(nullptr);
  queue->failed = true;
}

void report_failure(ob_queue queue) {
  if (queue->failed.exchange(false)) fail(OB_ERROR, "%s", queue->failure.c_str());
}

// The next command, moved out of the list.
Command take(ob_queue queue) {
  Command work = std::move(queue->commands.front());
  queue->commands.pop_front();
  return work;
}

void* run_worker(void* argument) {
  const auto queue = static_cast<ob_queue>(argument);
  bool was_task = false;
  std::unique_lock lock(queue->mutex);
  for (;;) {
    if (queue->commands.empty() && was_task && !queue->stopping) look_for_work(queue, lock);
    queue->work_arrived.wait(lock, [=] { return !queue->commands.empty() || queue->stopping; });
    if (queue->commands.empty()) return nullptr;
    {
      const Command work = take(queue);
      was_task = is<Task>(work);
      // With the mutex held: a thread that sees the event complete and then queries the queue must
      // not find it busy with the recording.
      if (is<Record>(work)) {
        run(work);
      } else if (!was_task || !queue->failed) {
        lock.unlock();
        const bool succeeded = run(work);
        lock.lock();
        if (!succeeded) note_failure(queue);
      }
    }
    ++queue->completed;
    if (queue->waiting > 0) queue->work_done.notify_all();
  }
}

// The worker thread starts with the first command that needs it.
void start_worker(ob_queue queue) {
  if (queue->has_worker) return;
  const std::string name = drivers::format("outboard_%.20s", g_driver_name);
  const int error = start_thread(&queue->worker, name.c_str(), run_worker, queue);
  if (error != 0) {
    fail(OB_ERROR, "The worker thread of a queue could not be started: %s.", std::strerror(error));
  }
  queue->has_worker = true;
}

void stop_worker(ob_queue queue) {
  std::unique_lock lock(queue->mutex);
  const bool joins = queue->has_worker && !queue->stopping;
  queue->stopping = true;
  queue->work_arrived.notify_one();
  lock.unlock();
  if (joins) pthread_join(queue->worker, nullptr);
}

// Appends a command for the worker.
void submit(ob_queue queue, Command&& work) {
  if (queue->stopping) fail(OB_ERROR, "The %s driver has ended.", g_driver_name);
  start_worker(queue);
  queue->commands.push_back(std::move(work));
  ++queue->submitted;
  queue->work_arrived.notify_one();
}

void enqueue_locked(ob_queue queue, Command&& work) {
  if (queue->graph != nullptr) {
    if (is<Record>(work) || is<Wait>(work)) {
      fail(OB_UNSUPPORTED, "Events cannot be captured in a graph.");
    }
    queue->graph->commands.push_back(std::move(work));
  } else if (!is_idle(queue) || !is_short(work)) {
    submit(queue, std::move(work));
  } else if (!run(work)) {
    note_failure(queue);
  }
}

ob_status queue_create(const ob_queue_description* wanted, ob_queue* queue) {
  drivers::check(check_device(wanted->device));
  if (wanted->priority < GREATEST_PRIORITY || wanted->priority > LEAST_PRIORITY) {
    fail(OB_INVALID_ARGUMENT, "Priority %d is not between %d and %d.", wanted->priority,
         GREATEST_PRIORITY, LEAST_PRIORITY);
  }
  auto created = std::make_unique<ob_queue_t>(wanted->device);
  std::lock_guard lock(g_queues_mutex);
  g_queues.push_back(created.get());
  *queue = created.release();
  return OB_OK;
}

ob_status queue_query(ob_queue queue) {
  if (is_idle(queue)) return OB_OK;
  std::lock_guard lock(queue->mutex);
  return is_idle(queue) ? OB_OK : OB_NOT_READY;
}

ob_status queue_synchronize(ob_queue queue) {
  const uint64_t target = queue->submitted;
  spin waiting = {};
  while (queue->completed < target && keep_spinning(&waiting)) {
  }
  if (queue->completed >= target && !queue->failed) return OB_OK;
  std::unique_lock lock(queue->mutex);
  ++queue->waiting;
  queue->work_done.wait(lock, [=] { return queue->completed >= target; });
  --queue->waiting;
  report_failure(queue);
  return OB_OK;
}

ob_status queue_destroy(ob_queue queue) {
  {
    std::lock_guard lock(g_queues_mutex);
    if (std::erase(g_queues, queue) == 0) {
      fail(OB_INVALID_ARGUMENT, "%p is not a queue of the %s driver.", static_cast<void*>(queue),
           g_driver_name);
    }
  }
  const std::unique_ptr<ob_queue_t> destroyed(queue);
  stop_worker(queue);  // after all its work
  report_failure(queue);
  return OB_OK;
}

// Records one event on every busy queue: queues may be created and destroyed during the wait.
ob_status synchronize_device(int32_t index) {
  drivers::check(check_device(index));
  const auto mark = std::make_shared<Recording>();
  {
    std::lock_guard all(g_queues_mutex);
    for (const ob_queue queue : g_queues) {
      if (queue->device != index || is_idle(queue)) continue;
      mark->expect_another();
      std::lock_guard lock(queue->mutex);
      submit(queue, Record{mark});
    }
  }
  mark->happen();  // the one that it was created for
  mark->wait();
  return OB_OK;
}

// ---- Graphs: commands captured from a queue, enqueued again at each launch

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
  if (queue->device != graph->device) {
    fail(OB_INVALID_ARGUMENT, "A graph of device %d cannot be launched on device %d.",
         graph->device, queue->device);
  }
  std::lock_guard lock(queue->mutex);
  for (const Command& work : graph->commands) enqueue_locked(queue, Command(work));
  return OB_OK;
}

ob_status graph_release(ob_graph graph) {
  delete graph;
  return OB_OK;
}

// For tests.
ob_status inject_failure(ob_queue queue) {
  const auto run = [](task*) {
    return drivers::keep_message(OB_ERROR, "A test asked for this failure.");
  };
  enqueue(queue, Task(new task{1, run, nullptr, [](task* work) { delete work; }}));
  return OB_OK;
}

}  // namespace

void enqueue(ob_queue queue, Command&& work) {
  std::lock_guard lock(queue->mutex);
  enqueue_locked(queue, std::move(work));
}

}  // namespace queues

// ---- For drivers

void start_queues(const char* name, int32_t devices) {
  queues::g_driver_name = name;
  queues::g_device_count = devices;
}

void stop_queues(void) {
  std::lock_guard lock(queues::g_queues_mutex);
  for (const ob_queue queue : queues::g_queues) queues::stop_worker(queue);
}

ob_status check_device(int32_t index) {
  if (index >= 0 && index < queues::g_device_count) return OB_OK;
  return drivers::keep_message(
      OB_INVALID_ARGUMENT,
      drivers::format("Device %d does not exist: the %s driver has %d devices.", index,
                      queues::g_driver_name, queues::g_device_count));
}

int32_t device_of(ob_queue queue) { return queue->device; }

bool is_capturing(ob_queue queue) {
  std::lock_guard lock(queue->mutex);
  return queue->graph != nullptr;
}

ob_status enqueue_task(ob_queue queue, task* work) try {
  queues::enqueue(queue, queues::Task(work));
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

ob_status device_synchronize(void* context, int32_t device) {
  return drivers::Guarded<queues::synchronize_device>::call(context, device);
}

void set_queue_functions(ob_driver* table) {
  using namespace queues;
  OB_SET(*table, queue_create);
  OB_SET(*table, queue_destroy);
  OB_SET(*table, queue_query);
  OB_SET(*table, queue_synchronize);
  OB_SET(*table, graph_begin);
  OB_SET(*table, graph_end);
  OB_SET(*table, graph_launch);
  OB_SET(*table, graph_release);
  OB_SET(*table, inject_failure);
  set_event_functions(*table);
  set_transfer_functions(*table);
}
