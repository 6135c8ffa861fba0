#include "runtime/recording/recording.h"

#include <c10/util/Exception.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/driver/driver_table.h"
#include "runtime/process.h"
#include "runtime/streams/wait.h"

namespace outboard {

std::atomic<bool> g_recording{false};

namespace {

// Activities whose events are read together.
constexpr uint64_t kBatch = 1024;

struct Entry {
  Activity activity;
  TimingEvents events;
};

}  // namespace

// The mutex guards everything and is never held while the driver is called: functions of a driver
// in Python wait for the interpreter lock.
struct ActivityLog {
  std::mutex mutex;
  std::deque<Entry> entries;
  uint64_t first = 0;       // position of entries.front()
  uint64_t next_batch = 0;  // position at which events are read next
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

  // Takes the events of `count` entries from position `start` on; put_back returns them.
  std::vector<Entry> take_events(uint64_t start, uint64_t count) {
    reading = true;
    std::vector<Entry> taken(count);
    for (uint64_t i = 0; i < count; ++i) {
      Entry& entry = entries[start + i - first];
      taken[i].activity.device = entry.activity.device;
      taken[i].events = std::move(entry.events);
    }
    return taken;
  }

  void put_back(uint64_t start, std::vector<Entry>& taken) {
    reading = false;
    read.notify_all();
    for (uint64_t i = 0; i < taken.size(); ++i) {
      if (start + i < first) continue;
      Entry& entry = entries[start + i - first];
      entry.events = std::move(taken[i].events);
      if (!taken[i].activity.has_times()) continue;
      entry.activity.begin = taken[i].activity.begin;
      entry.activity.end = taken[i].activity.end;
    }
  }

  // Removes the entries that no reader can still read. The caller destroys them without the lock:
  // their events go back to the driver.
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

std::atomic<uint64_t> g_profile{0};

struct CorrelationStacks {
  uint64_t profile = 0;
  std::vector<uint64_t> operations;
  std::shared_ptr<const UserRange> ranges;
};

// Stacks of the calling thread, empty at the start of each profile.
CorrelationStacks& correlation_stacks() {
  thread_local CorrelationStacks mine;
  const uint64_t profile = g_profile.load(std::memory_order_relaxed);
  if (mine.profile != profile) {
    mine.profile = profile;
    mine.operations.clear();
    mine.ranges.reset();
  }
  return mine;
}

// Leaked: kernels are launched while the process exits.
ActivityLog& activity_log() {
  static auto* instance = new ActivityLog;
  return *instance;
}

// Fills in the times of entries whose work is done, or with `wait` of all, and destroys their
// events. Called without the mutex.
void read_times(std::vector<Entry>& entries, bool wait) noexcept {
  try {
    const ob_driver& table = driver();
    for (Entry& entry : entries) {
      if (entry.events.end == nullptr) continue;
      const ob_event last = entry.events.end.get();
      const ob_status status =
          wait ? wait_for_event(table, last) : table.event_query(table.context, last);
      if (status == OB_NOT_READY) continue;
      const TimingEvents events = std::exchange(entry.events, TimingEvents());
      if (status != OB_OK) continue;
      const c10::DeviceIndex device = entry.activity.device;
      try {
        entry.activity.begin = event_time(device, events.begin.get());
        entry.activity.end = std::max(entry.activity.begin, event_time(device, events.end.get()));
      } catch (const c10::Error&) {
        // A lost device, or an unknown time. Waiting for the work reports errors.
      }
    }
  } catch (const std::exception&) {
    // The driver is finalized.
  }
}

}  // namespace

int32_t thread_number() noexcept {
  thread_local const auto number = static_cast<int32_t>(syscall(SYS_gettid));
  return number;
}

// ---- Correlation ----

Correlation current_correlation() {
  const CorrelationStacks& mine = correlation_stacks();
  return {mine.operations.empty() ? 0 : mine.operations.back(), mine.ranges};
}

void begin_correlation() noexcept { g_profile.fetch_add(1, std::memory_order_relaxed); }

void push_operation(uint64_t id) { correlation_stacks().operations.push_back(id); }

void pop_operation() noexcept {
  auto& operations = correlation_stacks().operations;
  if (!operations.empty()) operations.pop_back();
}

void push_user_range(uint64_t id) {
  auto& ranges = correlation_stacks().ranges;
  ranges = std::make_shared<const UserRange>(UserRange{id, std::move(ranges)});
}

void pop_user_range() noexcept {
  auto& ranges = correlation_stacks().ranges;
  if (ranges != nullptr) ranges = ranges->outer;
}

// ---- Recordings ----

void log_activity(Activity activity, TimingEvents events) noexcept {
  ActivityLog& log = activity_log();
  std::lock_guard<std::mutex> lock(log.mutex);
  if (recording()) log.entries.push_back({std::move(activity), std::move(events)});
}

void read_finished_work() noexcept {
  if (usable_driver() == nullptr) return;
  ActivityLog& log = activity_log();
  uint64_t start = 0;
  std::vector<Entry> batch;
  {
    std::lock_guard<std::mutex> lock(log.mutex);
    if (log.reading || log.end() < log.next_batch + 2 * kBatch) return;
    start = log.next_batch;
    log.next_batch += kBatch;
    batch = log.take_events(start, kBatch);
  }
  read_times(batch, /*wait=*/false);
  std::lock_guard<std::mutex> lock(log.mutex);
  log.put_back(start, batch);
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
  if (usable_driver() != nullptr) read_times(events, /*wait=*/true);
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
