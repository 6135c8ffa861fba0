/*
 * Queues, events and callbacks by threads of the host, for drivers in C++ whose devices have none
 * of their own: each queue has a thread that does its work in order.
 *
 *   queues.cpp  queue_create to queue_synchronize
 *   events.cpp  event_create to event_elapsed, host_callback
 *
 * The functions have the contract's names and are described there.
 */
#ifndef OUTBOARD_DRIVERS_COMMON_QUEUES_H
#define OUTBOARD_DRIVERS_COMMON_QUEUES_H

#include <outboard/driver.h>
#include <time.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

namespace drivers {

// Puts the functions into a table.
void set_queue_functions(ob_driver& table);
void set_event_functions(ob_driver& table);
// The name of the driver, which its threads bear, and how many devices there are; called by
// `initialize`.
void start(const char* name, int32_t devices);
int32_t device_count();
// Throws if there is no such device.
void check_device(int32_t index);
// Lets every queue finish its work, and takes no more.
void stop_all_queues();

// One use of event_record.
struct Recording {
  std::mutex mutex = {};
  std::condition_variable changed = {};
  bool happened = false;
  timespec time = {};  // when it happened

  void happen();
};

struct Work {
  // What it throws is reported by queue_synchronize.
  std::function<void()> run = {};
  std::shared_ptr<Recording> recording = {};  // instead of `run`
};

// Throws if the queue cannot take it.
void enqueue(ob_queue queue, Work work);
int32_t device_of(ob_queue queue);
// Whether work failed since the queue was last synchronized.
bool has_failed(ob_queue queue);

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_QUEUES_H
