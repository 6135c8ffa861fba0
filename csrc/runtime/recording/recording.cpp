#include "runtime/recording/recording.h"

#include <c10/util/Exception.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/streams/event.h"
#include "runtime/streams/wait.h"

namespace outboard {

std::atomic<bool> g_recording{false};

namespace {

// So many activities are looked at together for events that have happened.
constexpr uint64_t kBatch = 1024;

bool driver_can_be_asked() noexcept {
  return driver_initialized() && !driver_finalized() && !in_bad_fork();
}

struct Entry {
  Activity activity;
  TimingEvents events;
};

}  // namespace

// Everything under the mutex, which is never held while the driver is called: a driver may be
// written in Python, and its functions then wait for the interpreter's lock.
struct ActivityLog {
  std::mutex mutex;
  std::deque<Entry> entries;
  uint64_t first = 0;       // the place of entries.front()
  uint64_t next_batch = 0;  // where events are read next
  bool reading = false;     // a thread has taken events out and reads them
  std::condition_variable read;
  std::vector<Recording*> readers;

  uint64_t end() const { return first + entries.size(); }

  void add(Recording* reader) {
    readers.push_back(reader);
    reader->next_ = end();
    g_recording.store(true, std::memory_order_relaxed);
  }

  void remove(Recording* reader) {
    readers.erase(std::find(readers.begin(), readers.end(), reader));
  }

  void refresh_flag() {
    const bool any = std::any_of(readers.begin(), readers.end(),
                                 [](const Recording* reader) { return !reader->stopped_; });
    g_recording.store(any, std::memory_order_relaxed);
  }

  // The events of `count` entries from `place` on. They are given back with put_back.
  std::vector<Entry> take_events(uint64_t place, uint64_t count) {
    reading = true;
    std::vector<Entry> taken(count);
    for (uint64_t i = 0; i < count; ++i) {
      Entry& entry = entries[place + i - first];
      taken[i].activity.device = entry.activity.device;
      taken[i].events = std::move(entry.events);
    }
    return taken;
  }

  void put_back(uint64_t place, std::vector<Entry>& taken) {
    reading = false;
    read.notify_all();
    for (uint64_t i = 0; i < taken.size(); ++i) {
      if (place + i < first) continue;
      Entry& entry = entries[place + i - first];
      entry.events = std::move(taken[i].events);
      if (!taken[i].activity.has_times()) continue;
      entry.activity.begin = taken[i].activity.begin;
      entry.activity.end = taken[i].activity.end;
    }
  }

  // What no reader can still read. Given out, because events go back to the driver.
  std::vector<Entry> drop_unread() {
    uint64_t from = end();
    for (const Recording* reader : readers) {
      const bool done = reader->stopped_ && reader->next_ == reader->end_;
      if (!done) from = std::min(from, reader->next_);
    }
    std::vector<Entry> dropped;
    for (; first < from; ++first) {
      dropped.push_back(std::move(entries.front()));
      entries.pop_front();
    }
    next_batch = std::max(next_batch, first);
    return dropped;
  }
};

namespace {

// Leaked: kernels are launched while the process exits.
ActivityLog& activity_log() {
  static auto* instance = new ActivityLog;
  return *instance;
}

// Fills in the times of entries whose work is done, or with `wait` of all, and gives their events
// back. Called without the mutex.
void read_times(std::vector<Entry>& entries, bool wait) noexcept {
  try {
    const ob_driver& table = driver();
    for (Entry& entry : entries) {
      if (!entry.events) continue;
      const ob_event last = entry.events.end();
      const ob_status status =
          wait ? wait_for_event(table, last) : table.event_query(table.context, last);
      if (status == OB_NOT_READY) continue;
      const TimingEvents events = std::exchange(entry.events, TimingEvents());
      if (status != OB_OK) continue;
      const c10::DeviceIndex device = entry.activity.device;
      try {
        entry.activity.begin = event_time(device, events.begin());
        entry.activity.end = std::max(entry.activity.begin, event_time(device, events.end()));
      } catch (const c10::Error&) {
        // The device is lost or does not know; whoever waits for the work is told.
      }
    }
  } catch (const std::exception&) {
    // The driver has ended.
  }
}

}  // namespace

uint64_t host_nanoseconds() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

int32_t thread_number() noexcept {
  thread_local const auto number = static_cast<int32_t>(syscall(SYS_gettid));
  return number;
}

// ---- Events ----

TimingEvents::~TimingEvents() {
  if (!driver_can_be_asked()) return;
  for (ob_event event : {begin_, end_}) {
    if (event != nullptr) defer_status(OB_ASK(event_destroy, event), "event_destroy");
  }
}

TimingEvents::TimingEvents(TimingEvents&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), end_(std::exchange(other.end_, nullptr)) {}

TimingEvents& TimingEvents::operator=(TimingEvents&& other) noexcept {
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
  return *this;
}

bool TimingEvents::create(const ob_driver& table, c10::DeviceIndex device) noexcept {
  if (create_event(table, device, OB_EVENT_TIMING, &begin_) != OB_OK) begin_ = nullptr;
  if (begin_ == nullptr) return false;
  if (create_event(table, device, OB_EVENT_TIMING, &end_) != OB_OK) end_ = nullptr;
  return end_ != nullptr;
}

// ---- Recordings ----

void log_activity(Activity activity, TimingEvents events) noexcept {
  ActivityLog& log = activity_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  if (recording()) log.entries.push_back({std::move(activity), std::move(events)});
}

void read_finished_work() noexcept {
  if (!driver_can_be_asked()) return;
  ActivityLog& log = activity_log();
  uint64_t place = 0;
  std::vector<Entry> batch;
  {
    std::lock_guard<std::mutex> lock(log.mutex);
    if (log.reading || log.end() < log.next_batch + 2 * kBatch) return;
    place = log.next_batch;
    log.next_batch += kBatch;
    batch = log.take_events(place, kBatch);
  }
  read_times(batch, /*wait=*/false);
  std::lock_guard<std::mutex> lock(log.mutex);
  log.put_back(place, batch);
}

void Recording::start() {
  ActivityLog& log = activity_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  if (!stopped_) return;
  if (active_) log.remove(this);
  stopped_ = false;
  active_ = true;
  log.add(this);
}

void Recording::stop() noexcept {
  if (stopped_ || in_bad_fork()) return;
  ActivityLog& log = activity_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  stopped_ = true;
  end_ = log.end();
  log.refresh_flag();
}

std::vector<Activity> Recording::take() {
  if (!active_ || in_bad_fork()) return {};
  ActivityLog& log = activity_log();
  std::vector<Entry> dropped;
  std::unique_lock<std::mutex> lock(log.mutex);
  log.read.wait(lock, [&log] { return !log.reading; });
  const uint64_t end = stopped_ ? end_ : log.end();
  std::vector<Entry> events = log.take_events(next_, end - next_);
  lock.unlock();
  if (driver_can_be_asked()) read_times(events, /*wait=*/true);
  lock.lock();
  log.put_back(next_, events);
  std::vector<Activity> activities;
  activities.reserve(events.size());
  for (; next_ < end; ++next_) activities.push_back(log.entries[next_ - log.first].activity);
  dropped = log.drop_unread();
  lock.unlock();
  return activities;
}

Recording::~Recording() {
  stop();
  if (!active_ || in_bad_fork()) return;
  ActivityLog& log = activity_log();
  std::vector<Entry> dropped;
  std::lock_guard<std::mutex> lock(log.mutex);
  log.remove(this);
  dropped = log.drop_unread();
}

}  // namespace outboard
