// Threads for host callbacks and for what must not run inside a callback of OpenCL's. A task never
// waits for another one: if no thread is free, there will be one more.
#include <threads/threads.h>

#include <condition_variable>
#include <deque>
#include <utility>

#include "ocl.h"

namespace ocl {
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

// The caller holds the mutex. Without one more, the tasks wait for a thread that there is.
void add_worker(Workers& w) {
  pthread_t thread;
  if (start_thread(&thread, "outboard_ocl", run_worker, nullptr) == 0) w.threads.push_back(thread);
}

}  // namespace

void start_workers() {
  Workers& w = workers();
  std::lock_guard lock(w.mutex);
  if (w.threads.empty()) add_worker(w);
  if (w.threads.empty()) fail(OB_ERROR, "A thread for host callbacks could not be started.");
}

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

}  // namespace ocl
