// Waiting for the driver, with an eye on the clock: work that never ends is told about, not kept
// silent about.
//
// A wait that takes long is reported once by a thread that does nothing else: the driver has the
// waiting thread, and only it can give it back. With OUTBOARD_WAIT_TIMEOUT (seconds, more than 0)
// in the environment, waits ask the driver again and again instead of calling its blocking
// functions, and give up after that time.
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

// What the driver answers; OB_NOT_READY if time ran out. Allowed while the driver ends.
OUTBOARD_API ob_status wait_for_queue(const ob_driver& table, ob_queue queue) noexcept;
OUTBOARD_API ob_status wait_for_event(const ob_driver& table, ob_event event) noexcept;

// Raises for anything but OB_OK; RuntimeError with what to do where time ran out.
OUTBOARD_API void check_wait(ob_status status, const char* call);

// Whether waits give up after some time.
bool waits_are_limited() noexcept;

// Threads that wait for the driver at the moment.
int waiting_threads() noexcept;

}  // namespace outboard
