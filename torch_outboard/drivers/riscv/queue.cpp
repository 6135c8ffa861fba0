// Queues: a list of work and a thread that does it in order.
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <utility>

#include "riscv.h"

namespace riscv {
namespace {

void run_work(ob_queue queue) {
  std::unique_lock lock(queue->mutex);
  for (;;) {
    queue->arrived.wait(lock, [&] { return !queue->work.empty() || queue->stopping; });
    if (queue->work.empty()) return;
    Work work = std::move(queue->work.front());
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
      if (queue->failure.empty()) queue->failure = std::move(failure);
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
    pthread_setname_np(queue->worker.native_handle(), "outboard_riscv");
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

void report_failure(std::string failure) {
  if (!failure.empty()) fail(OB_ERROR, "%s", failure.c_str());
}

}  // namespace

void enqueue(ob_queue queue, Work work) {
  std::lock_guard lock(queue->mutex);
  if (queue->stopping) fail(OB_ERROR, "The riscv driver has ended.");
  if (!queue->worker.joinable()) start_worker(queue);
  queue->work.push_back(std::move(work));
  ++queue->submitted;
  queue->arrived.notify_one();
}

void stop_all_queues() {
  for (const auto& device : g_devices) {
    std::lock_guard lock(device->queues_mutex);
    for (ob_queue queue : device->queues) stop_worker(queue);
  }
}

ob_status queue_create(const ob_queue_description* wanted, ob_queue* queue) {
  Device& device = device_at(wanted->device);
  // Two priorities, so that programs which ask for them run; there is one processor.
  if (wanted->priority < -1 || wanted->priority > 0) {
    fail(OB_INVALID_ARGUMENT, "Priority %d is not between -1 and 0.", wanted->priority);
  }
  auto created = std::unique_ptr<ob_queue_t>(new ob_queue_t{device});
  std::lock_guard lock(device.queues_mutex);
  device.queues.push_back(created.get());
  *queue = created.release();
  return OB_OK;
}

ob_status queue_destroy(ob_queue queue) {
  bool known = false;
  for (const auto& device : g_devices) {
    std::lock_guard lock(device->queues_mutex);
    known = known || std::erase(device->queues, queue) != 0;
  }
  if (!known) {
    fail(OB_INVALID_ARGUMENT, "%p is not a queue of the riscv driver.", static_cast<void*>(queue));
  }
  stop_worker(queue);
  const std::unique_ptr<ob_queue_t> destroyed(queue);
  report_failure(std::move(queue->failure));
  return OB_OK;
}

ob_status queue_query(ob_queue queue) {
  std::lock_guard lock(queue->mutex);
  return queue->completed == queue->submitted ? OB_OK : OB_NOT_READY;
}

ob_status queue_synchronize(ob_queue queue) {
  std::unique_lock lock(queue->mutex);
  const uint64_t target = queue->submitted;
  queue->done.wait(lock, [&] { return queue->completed >= target; });
  report_failure(std::exchange(queue->failure, ""));
  return OB_OK;
}

}  // namespace riscv
