// Shared declarations of drivers/queues.
#ifndef OUTBOARD_DRIVERS_QUEUES_COMMAND_H
#define OUTBOARD_DRIVERS_QUEUES_COMMAND_H

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>

#include "queues.h"

namespace queues {

using drivers::fail;

// Each puts the functions of its file into a table.
void set_event_functions(ob_driver& table);
void set_transfer_functions(ob_driver& table);

// One call of event_record. The event, the command in the queue and each wait share it, so each may
// end first, and recording the event again does not change earlier waits.
class Recording {
 public:
  bool has_happened() const { return missing_ == 0; }
  void wait();
  // In one more queue.
  void expect_another() { ++missing_; }
  void happen();
  // Nanoseconds, once it has happened.
  uint64_t time() const { return time_; }

 private:
  std::atomic<int> missing_{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t time_ = 0;
};

// ---- Commands. A failure of `run` is an exception. `is_short`: it takes less time than waking a
// thread.

struct Copy {
  char* destination;
  uint64_t destination_pitch;
  const char* source;
  uint64_t source_pitch, row_bytes, rows;

  void run() const;
  bool is_short() const;
};

struct Fill {
  char* destination;
  uint64_t bytes;
  uint32_t pattern_bytes;
  unsigned char pattern[16];

  void run() const;
  bool is_short() const;
};

struct Callback {
  ob_host_function function;
  void* argument;

  void run() const { function(argument); }
  bool is_short() const { return false; }
};

// One reference to a task.
class Task {
 public:
  explicit Task(task* work) : work_(work) {}
  Task(const Task& other) : work_(other.work_) {
    __atomic_add_fetch(&work_->references, 1, __ATOMIC_RELAXED);
  }
  Task(Task&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  ~Task() {
    if (work_ == nullptr) return;
    if (__atomic_sub_fetch(&work_->references, 1, __ATOMIC_ACQ_REL) == 0) work_->destroy(work_);
  }

  void run() const { drivers::check(work_->run(work_)); }
  bool is_short() const { return work_->is_short != nullptr && work_->is_short(work_); }

 private:
  task* work_;
};

struct Record {
  std::shared_ptr<Recording> recording;

  void run() const { recording->happen(); }
  bool is_short() const { return true; }
};

struct Wait {
  std::shared_ptr<Recording> recording;

  void run() const { recording->wait(); }
  bool is_short() const { return recording->has_happened(); }
};

using Command = std::variant<Copy, Fill, Callback, Task, Record, Wait>;

// Captures, runs or submits a command.
void enqueue(ob_queue queue, Command&& work);

}  // namespace queues

#endif  // OUTBOARD_DRIVERS_QUEUES_COMMAND_H
