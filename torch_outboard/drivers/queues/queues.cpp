// Queues: a list of work and a thread that does it in order.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <deque>
#include <thread>
#include <utility>
#include <vector>

#include "common/failure.h"
#include "queues.h"

struct ob_queue_t {
  int32_t device;
  std::mutex mutex = {};
  std::condition_variable arrived = {}, done = {};
  std::deque<drivers::Work> work = {};
  uint64_t submitted = 0, completed = 0;
  bool stopping = false;
  std::string failure = {};  // the first since the last synchronization
  std::thread worker = {};
};

namespace drivers {
namespace {

const char* g_name = "";
int32_t g_device_count = 0;
std::mutex& g_queues_mutex = *new std::mutex;
std::vector<ob_queue>& g_queues = *new std::vector<ob_queue>;  // never destroyed

void run_work(ob_queue queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->arrived.wait(lock, [&] { return !queue->work.empty() || queue->stopping; });
    if (queue->work.empty()) return;
    Work work = std::exchange(queue->work.front(), {});
    queue->work.pop_front();
    // A recording happens with the lock held: who sees that the event has happened and then asks
    // the queue must not be told that it is still busy.
    if (work.recording) {
      work.recording->happen();
    } else {
      lock.unlock();
      std::string failure;
      try {
        work.run();
      } catch (const Failure& error) {
        failure = error.message;
      } catch (const std::exception& error) {
        failure = error.what();
      }
      work = {};
      lock.lock();
      if (queue->failure.empty()) queue->failure = failure;
    }
    ++queue->completed;
    queue->done.notify_all();
  }
}

// Signals are blocked in the thread: they belong to threads of the application.
void start_worker(ob_queue queue) {
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  try {
    queue->worker = std::thread(run_work, queue);
    pthread_setname_np(queue->worker.native_handle(), format("outboard_%.6s", g_name).c_str());
  } catch (const std::exception&) {
  }
  pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  if (!queue->worker.joinable()) fail(OB_ERROR, "The thread of a queue could not be started.");
}

// Lets the thread finish its work, and ends it.
void stop_worker(ob_queue queue) {
  std::thread worker;
  {
    std::lock_guard lock(queue->mutex);
    queue->stopping = true;
    worker.swap(queue->worker);
    queue->arrived.notify_one();
  }
  if (worker.joinable()) worker.join();
}

ob_status report_failure(const std::string& failure) {
  if (!failure.empty()) fail(OB_ERROR, "%s", failure.c_str());
  return OB_OK;
}

ob_status queue_create(const ob_queue_description* wanted, ob_queue* queue) {
  check_device(wanted->device);
  if (wanted->priority != 0) {
    fail(OB_INVALID_ARGUMENT, "Priority %d is not 0, the only one.", wanted->priority);
  }
  auto created = std::unique_ptr<ob_queue_t>(new ob_queue_t{wanted->device});
  std::lock_guard lock(g_queues_mutex);
  g_queues.push_back(created.get());
  *queue = created.release();
  return OB_OK;
}

ob_status queue_destroy(ob_queue queue) {
  {
    std::lock_guard lock(g_queues_mutex);
    if (std::erase(g_queues, queue) == 0) {
      fail(OB_INVALID_ARGUMENT, "%p is not a queue of the %s driver.", static_cast<void*>(queue),
           g_name);
    }
  }
  stop_worker(queue);
  return report_failure(std::unique_ptr<ob_queue_t>(queue)->failure);
}

ob_status queue_query(ob_queue queue) {
  std::lock_guard lock(queue->mutex);
  return queue->completed == queue->submitted ? OB_OK : OB_NOT_READY;
}

ob_status queue_synchronize(ob_queue queue) {
  std::unique_lock lock(queue->mutex);
  const uint64_t target = queue->submitted;
  queue->done.wait(lock, [&] { return queue->completed >= target; });
  return report_failure(std::exchange(queue->failure, ""));
}

}  // namespace

void enqueue(ob_queue queue, Work work) {
  std::lock_guard lock(queue->mutex);
  if (queue->stopping) fail(OB_ERROR, "The %s driver has ended.", g_name);
  if (!queue->worker.joinable()) start_worker(queue);
  queue->work.push_back(std::move(work));
  ++queue->submitted;
  queue->arrived.notify_one();
}

bool has_failed(ob_queue queue) {
  std::lock_guard lock(queue->mutex);
  return !queue->failure.empty();
}

int32_t device_of(ob_queue queue) { return queue->device; }

void start(const char* name, int32_t devices) {
  g_name = name;
  g_device_count = devices;
}

int32_t device_count() { return g_device_count; }

void check_device(int32_t index) {
  if (index >= 0 && index < g_device_count) return;
  fail(OB_INVALID_ARGUMENT, "Device %d does not exist: the %s driver has %d devices.", index,
       g_name, g_device_count);
}

void stop_all_queues() {
  std::lock_guard lock(g_queues_mutex);
  for (ob_queue queue : g_queues) stop_worker(queue);
}

void set_queue_functions(ob_driver& table) {
  OB_SET(table, queue_create);
  OB_SET(table, queue_destroy);
  OB_SET(table, queue_query);
  OB_SET(table, queue_synchronize);
}

}  // namespace drivers
