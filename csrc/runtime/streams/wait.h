// Waits for the driver, with a watchdog and a time limit: work that never ends is reported.
//
// A watchdog thread reports a long wait once; the waiting thread is in a blocking driver call,
// which cannot be interrupted. Waits that can be given up poll the driver instead: all of them with
// OUTBOARD_WAIT_TIMEOUT (seconds, more than 0) in the environment, and those of the main thread of
// a Python program, when a signal handler raises (Ctrl-C).
#pragma once

#include <c10/macros/Macros.h>
#include <outboard/driver.h>

#include <cstdint>

#include "runtime/export.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"

namespace outboard {

// What a thread has spent in waits and in compiling programs since it started. A reader takes the
// difference of two values. Each thread has its own: no synchronization.
struct ThreadCosts {
  uint64_t waits = 0;  // driver calls that may block, outermost ones
  uint64_t waiting_nanoseconds = 0;
  uint64_t programs = 0;  // compiled from source
  uint64_t compiling_nanoseconds = 0;
};
// Of the calling thread.
OUTBOARD_API ThreadCosts& thread_costs() noexcept;

// A wait of one thread, for the watchdog.
struct Wait {
  const char* call;
  uint64_t since;  // host_nanoseconds() at its begin
  bool reported = false;
};

// The scope of a driver call that may block. `call` is a literal.
class WaitScope {
 public:
  explicit WaitScope(const char* call) noexcept;
  ~WaitScope();
  C10_DISABLE_COPY_AND_ASSIGN(WaitScope);

 private:
  const bool outermost_;  // of this thread: others are no waits of their own
  Wait wait_;
  RecordedHostCall record_;
};

// The driver's status; OB_NOT_READY if the wait was given up. Allowed in finalize_driver().
OUTBOARD_API ob_status wait_for_queue(const ob_driver& table, ob_queue queue) noexcept;
OUTBOARD_API ob_status wait_for_event(const ob_driver& table, ob_event event) noexcept;
// For stack unwinding: does not wait again if this thread's last wait gave up on the queue.
OUTBOARD_API ob_status wait_for_queue_once(const ob_driver& table, ob_queue queue) noexcept;

// Raises for anything but OB_OK: after the time limit RuntimeError with the next step, after a
// signal handler its error.
OUTBOARD_API void check_wait(ob_status status, const char* call);

// Whether waits have a time limit.
bool waits_are_limited() noexcept;
// Whether waits of this thread can be given up.
bool waits_end_early() noexcept;
// Whether a wait was given up so far, in any thread.
bool gave_up_waiting() noexcept;
// Whether work is under way on a device's streams. Does not wait; allowed in finalize_driver().
bool is_busy(const ob_driver& table, c10::DeviceIndex device) noexcept;

// `handle` is called in long waits of the main thread. It runs pending signal handlers and returns
// whether to give up the wait; `raise` then throws. Both may take the interpreter lock.
OUTBOARD_API void set_signal_handling(bool (*handle)(), void (*raise)()) noexcept;

// Receives each wait that the program asked for when it has ended: `call` names it, `nanoseconds`
// is the time in the driver. Called without a lock; null for none.
using WaitListener = void (*)(const char* call, uint64_t nanoseconds) noexcept;
OUTBOARD_API void set_wait_listener(WaitListener function) noexcept;

// The scope of a wait that the program asked for, as by torch.accelerator.synchronize.
class OUTBOARD_API RequestedWait {
 public:
  // `call` is a literal.
  explicit RequestedWait(const char* call) noexcept;
  ~RequestedWait();
  C10_DISABLE_COPY_AND_ASSIGN(RequestedWait);

 private:
  const char* call_;
  uint64_t before_;  // nanoseconds of this thread in waits
};

// Number of threads that wait for the driver.
int waiting_threads() noexcept;

}  // namespace outboard
