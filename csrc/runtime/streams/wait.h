// Waiting for the driver, with an eye on the clock: work that never ends is told about, not kept
// silent about.
//
// A wait that takes long is reported once by a thread that does nothing else: the driver has the
// waiting thread, and only it can give it back. Waits that can be given up ask the driver again and
// again instead of calling its blocking functions: with OUTBOARD_WAIT_TIMEOUT (seconds, more than
// 0) in the environment all of them, after that time; and those of the main thread of a program in
// Python when a signal handler raises, as Ctrl-C makes it.
#pragma once

#include <outboard/driver.h>

#include "runtime/export.h"
#include "runtime/recording/recorded_call.h"
#include "runtime/streams/stream.h"

namespace outboard {

// For a driver call that may block: in the scope, the watchdog knows of it. `call` is a literal.
class WaitScope {
 public:
  explicit WaitScope(const char* call) noexcept;
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  bool outermost_;
  RecordedHostCall record_;
};

// What the driver answers; OB_NOT_READY if the wait was given up. Allowed while the driver ends.
OUTBOARD_API ob_status wait_for_queue(const ob_driver& table, ob_queue queue) noexcept;
OUTBOARD_API ob_status wait_for_event(const ob_driver& table, ob_event event) noexcept;
// For what unwinds: does not wait again if this thread has just given up waiting for the queue.
OUTBOARD_API ob_status wait_for_queue_once(const ob_driver& table, ob_queue queue) noexcept;

// Raises for anything but OB_OK; RuntimeError with what to do where time ran out, and the error of
// the signal handler where that gave the wait up.
OUTBOARD_API void check_wait(ob_status status, const char* call);

// Whether waits give up after some time.
bool waits_are_limited() noexcept;
// Whether those of this thread can be given up.
bool waits_end_early() noexcept;
// Whether one has been given up so far, in any thread.
bool gave_up_waiting() noexcept;
// Whether work on a device's streams has not ended. Does not wait; allowed while the driver ends.
bool is_busy(const ob_driver& table, c10::DeviceIndex device) noexcept;

// `handle` is called in long waits of the main thread: it runs what waits for signals, and says
// whether the wait is to be given up. `raise` then throws. Both may take the interpreter lock.
OUTBOARD_API void set_signal_handling(bool (*handle)(), void (*raise)()) noexcept;

// Threads that wait for the driver at the moment.
int waiting_threads() noexcept;

}  // namespace outboard
