#include "runtime/streams/wait.h"

#include <c10/core/DeviceType.h>
#include <c10/util/Exception.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/settings.h"

namespace outboard {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// 0: waits are not limited.
double time_limit() noexcept {
  static const double seconds = number_setting("OUTBOARD_WAIT_TIMEOUT", 0);
  return seconds;
}

// 0: long waits are not reported.
double report_after() noexcept {
  static const double seconds = number_setting("OUTBOARD_WAIT_WARNING", 60);
  return seconds;
}

std::atomic<bool (*)()> g_handle_signals{nullptr};
std::atomic<void (*)()> g_raise_of_handler{nullptr};
std::atomic<bool> g_gave_up{false};
std::atomic<WaitListener> g_wait_listener{nullptr};

// Of this thread's last wait: the queue that it gave up on, and whether a signal handler raised.
thread_local ob_queue t_given_up = nullptr;
thread_local bool t_handler_raised = false;

// Python handles signals on the main thread alone.
bool on_main_thread() noexcept {
  thread_local const bool main = static_cast<pid_t>(syscall(SYS_gettid)) == getpid();
  return main;
}

bool handles_signals() noexcept { return g_handle_signals.load() != nullptr && on_main_thread(); }

thread_local bool t_waits = false;

// Of all threads.
struct Waits {
  std::vector<Wait*> all;
  bool watched = false;
};

void report(const char* call, double seconds) {
  TORCH_WARN(
      "device '", c10::get_privateuse1_backend(), "' has been in `", call, "` for ",
      static_cast<int64_t>(seconds),
      " seconds: enqueued work has not ended. If it never ends, a kernel loops or the driver "
      "lost work. OUTBOARD_WAIT_TIMEOUT=60 makes waits raise after 60 seconds, "
      "OUTBOARD_WAIT_WARNING=0 silences this warning");
}

[[noreturn]] void watch() {
  const Seconds patience(report_after());
  for (;;) {
    std::this_thread::sleep_for(std::clamp<Seconds>(patience / 4, Seconds(0.02), Seconds(5)));
    const char* call = nullptr;
    Seconds passed(0);
    {
      const Locked<Waits> waits;
      for (Wait* wait : waits->all) {
        const std::chrono::nanoseconds its(host_nanoseconds() - wait->since);
        if (wait->reported || its < patience) continue;
        wait->reported = true;
        call = wait->call;
        passed = its;
      }
    }
    if (call != nullptr) report(call, passed.count());
  }
}

// The caller holds the mutex.
void start_watchdog(Waits& all) noexcept {
  if (all.watched || report_after() <= 0) return;
  all.watched = true;
  try {
    std::thread(&watch).detach();
  } catch (const std::exception&) {
    // No thread can be started: waits have no watchdog.
  }
}

// Waits for a few launches end before a sleeping thread would wake.
constexpr auto kShortWait = std::chrono::microseconds(100);
constexpr auto kLongestPause = std::chrono::milliseconds(1);
constexpr auto kBetweenSignals = std::chrono::milliseconds(100);

// Polls until the status is not OB_NOT_READY or the wait is given up. Pauses are a small part of
// the time waited so far.
template <class Query>
ob_status poll_until_ready(const Query& query) noexcept {
  const auto begin = Clock::now();
  const double limit = time_limit();
  const bool signals = handles_signals();
  auto next_signals = begin + kBetweenSignals;
  t_handler_raised = false;
  for (;;) {
    const ob_status status = query();
    if (status != OB_NOT_READY) return status;
    const auto now = Clock::now();
    if (limit > 0 && Seconds(now - begin).count() >= limit) break;
    if (signals && now >= next_signals) {
      t_handler_raised = g_handle_signals.load()();
      if (t_handler_raised) break;
      next_signals = now + kBetweenSignals;
    }
    if (now - begin < kShortWait) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::min<Clock::duration>((now - begin) / 32, kLongestPause));
    }
  }
  g_gave_up.store(true);
  return OB_NOT_READY;
}

}  // namespace

ThreadCosts& thread_costs() noexcept {
  thread_local ThreadCosts costs;
  return costs;
}

WaitScope::WaitScope(const char* call) noexcept
    : outermost_(!std::exchange(t_waits, true)), wait_{call, host_nanoseconds()}, record_(call) {
  if (!outermost_) return;
  const Locked<Waits> waits;
  start_watchdog(*waits);
  waits->all.push_back(&wait_);
}

WaitScope::~WaitScope() {
  if (!outermost_) return;
  t_waits = false;
  ThreadCosts& costs = thread_costs();
  costs.waits += 1;
  costs.waiting_nanoseconds += host_nanoseconds() - wait_.since;
  std::erase(Locked<Waits>()->all, &wait_);
}

void set_wait_listener(WaitListener function) noexcept { g_wait_listener.store(function); }

RequestedWait::RequestedWait(const char* call) noexcept
    : call_(call), before_(thread_costs().waiting_nanoseconds) {}

RequestedWait::~RequestedWait() {
  const WaitListener listener = g_wait_listener.load(std::memory_order_relaxed);
  if (C10_LIKELY(listener == nullptr)) return;
  const uint64_t spent = thread_costs().waiting_nanoseconds - before_;
  if (spent > 0) listener(call_, spent);
}

ob_status wait_for_queue(const ob_driver& table, ob_queue queue) noexcept {
  const WaitScope scope("queue_synchronize");
  if (!waits_end_early()) return table.queue_synchronize(table.context, queue);
  const ob_status status =
      poll_until_ready([&] { return table.queue_query(table.context, queue); });
  t_given_up = status == OB_NOT_READY ? queue : nullptr;
  // queue_synchronize reports errors of the work.
  return status == OB_NOT_READY ? status : table.queue_synchronize(table.context, queue);
}

ob_status wait_for_queue_once(const ob_driver& table, ob_queue queue) noexcept {
  if (t_given_up == queue && table.queue_query(table.context, queue) == OB_NOT_READY) {
    return OB_NOT_READY;
  }
  return wait_for_queue(table, queue);
}

ob_status wait_for_event(const ob_driver& table, ob_event event) noexcept {
  const WaitScope scope("event_synchronize");
  if (!waits_end_early()) return table.event_synchronize(table.context, event);
  const ob_status status =
      poll_until_ready([&] { return table.event_query(table.context, event); });
  return status == OB_NOT_READY ? status : table.event_synchronize(table.context, event);
}

void check_wait(ob_status status, const char* call) {
  if (status == OB_NOT_READY && std::exchange(t_handler_raised, false)) g_raise_of_handler.load()();
  TORCH_CHECK(status != OB_NOT_READY, "`", call, "` was given up after ", time_limit(),
              " seconds (OUTBOARD_WAIT_TIMEOUT): work enqueued on '",
              c10::get_privateuse1_backend(),
              "' has not ended. A kernel loops, the driver lost work, or the time is too short; do "
              "not use results of that work");
  check_status(status, call);
}

bool waits_are_limited() noexcept { return time_limit() > 0; }

bool waits_end_early() noexcept { return waits_are_limited() || handles_signals(); }

bool gave_up_waiting() noexcept { return g_gave_up.load(); }

void set_signal_handling(bool (*handle)(), void (*raise)()) noexcept {
  g_raise_of_handler.store(raise);
  g_handle_signals.store(handle);
}

int waiting_threads() noexcept { return static_cast<int>(Locked<Waits>()->all.size()); }

}  // namespace outboard
