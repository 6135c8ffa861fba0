// The report: calls of operators with placement, count, time and copied bytes.
#pragma once

#include <c10/core/ScalarType.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "dispatch/router.h"
#include "runtime/export.h"
#include "runtime/streams/wait.h"

namespace outboard {

struct ReportRow {
  std::string op;
  at::ScalarType dtype;
  Placement placement;
  std::string call_site;  // "file:line" of the innermost Python frame, if requested
  uint64_t calls = 0;
  uint64_t copied_bytes = 0;  // between host and device
  uint64_t nanoseconds = 0;   // in the calling thread, waits and compiling included
  ThreadCosts costs;          // of outermost calls
};

// The waits of the host for a device that began at one line of the program.
struct WaitRow {
  std::string cause;      // an operator, or a function such as "synchronize"
  std::string call_site;  // "file:line"; "" if no Python code was running, as in backward passes
  uint64_t count = 0;
  uint64_t nanoseconds = 0;
};

// The calls for which the report finds the calling line of Python, which takes the interpreter
// lock.
enum class CallSites : uint8_t { kNone, kOfWaits, kAll };

// Starts counting; starts nest.
OUTBOARD_API void start_report(CallSites call_sites);
OUTBOARD_API void stop_report();
// Counts since the last clear, unordered.
OUTBOARD_API std::vector<ReportRow> report_rows();
OUTBOARD_API std::vector<WaitRow> report_waits();
OUTBOARD_API void clear_report();

// Finds the call site; set by the Python binding.
using FindCallSite = std::string (*)();
OUTBOARD_API void set_find_call_site(FindCallSite function) noexcept;

// Receives every call that ended while a report is on; null for none. Called without a lock.
using CallListener = void (*)(const Operator& entry, Placement placement) noexcept;
OUTBOARD_API void set_call_listener(CallListener function) noexcept;

inline std::atomic<int> g_reports{0};
inline bool reporting() noexcept { return g_reports.load(std::memory_order_relaxed) != 0; }

// Counts one call during its lifetime, unless the call raises. Costs nothing without a report.
class ReportedCall {
 public:
  ReportedCall(const Operator& entry, at::ScalarType dtype, Placement placement) noexcept;
  ~ReportedCall();
  C10_DISABLE_COPY_AND_ASSIGN(ReportedCall);

  void add_copied_bytes(uint64_t bytes) noexcept { copied_bytes_ += bytes; }
  // Drops the call: the kernel declined it.
  void cancel() noexcept;

 private:
  const Operator* entry_ = nullptr;
  at::ScalarType dtype_;
  Placement placement_;
  uint64_t copied_bytes_ = 0;
  uint64_t start_ = 0;
  ThreadCosts before_;
  int exceptions_ = 0;  // in flight at its start
};

}  // namespace outboard
