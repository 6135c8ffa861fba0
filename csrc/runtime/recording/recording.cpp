#include "runtime/recording/recording.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/streams/wait.h"

namespace outboard {

std::atomic<bool> g_recording{false};

struct RecordedEntries {
  struct Entry {
    Activity activity;
    TimingEvents events;
  };
  std::deque<Entry> all;  // references stay valid while others are added
  size_t next_batch = 0;  // index of the entry whose events are read next
  bool reading = false;   // a thread reads events of entries before that one
};

namespace {

using Entry = RecordedEntries::Entry;

// Activities whose events are read together.
constexpr size_t kBatch = 1024;

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

// Its lock guards the entries of all recordings, too. It is never held while the driver is called:
// functions of a driver in Python wait for the interpreter lock.
struct ActivityLog {
  std::shared_ptr<RecordedEntries> current;  // of the recording that runs
  std::condition_variable read;
};

// Fills in the times of an entry whose work is done, or with `wait` of any, and destroys its
// events. Called without the mutex.
void read_times(Entry& entry, bool wait) noexcept {
  if (entry.events.end == nullptr) return;
  try {
    const ob_driver& table = driver();
    const ob_event last = entry.events.end.get();
    const ob_status status =
        wait ? wait_for_event(table, last) : table.event_query(table.context, last);
    if (status == OB_NOT_READY) return;
    const TimingEvents events = std::exchange(entry.events, TimingEvents());
    if (status != OB_OK) return;
    const c10::DeviceIndex device = entry.activity.device;
    const uint64_t begin = event_time(device, events.begin.get());
    entry.activity.end = std::max(begin, event_time(device, events.end.get()));
    entry.activity.begin = begin;
  } catch (const std::exception&) {
    // The driver is finalized, a device is lost, or a time unknown. Waiting for the work reports
    // errors.
  }
}

int32_t thread_number() noexcept {
  thread_local const auto number = static_cast<int32_t>(syscall(SYS_gettid));
  return number;
}

Correlation current_correlation() {
  const CorrelationStacks& mine = correlation_stacks();
  return {mine.operations.empty() ? 0 : mine.operations.back(), mine.ranges};
}

// Adds to the log if a recording runs. Does not call the driver.
void log_activity(Activity activity, TimingEvents events) noexcept {
  const Locked<ActivityLog> log;
  if (log->current != nullptr) {
    log->current->all.push_back({std::move(activity), std::move(events)});
  }
}

// Now and then reads events that have happened. Not for threads whose last driver call failed: it
// would overwrite the driver's message.
void read_finished_work() noexcept {
  if (usable_driver() == nullptr) return;
  std::shared_ptr<RecordedEntries> entries;
  std::vector<Entry*> batch;
  {
    const Locked<ActivityLog> log;
    entries = log->current;
    if (entries == nullptr || entries->reading ||
        entries->all.size() < entries->next_batch + 2 * kBatch) {
      return;
    }
    entries->reading = true;
    for (size_t i = 0; i < kBatch; ++i) batch.push_back(&entries->all[entries->next_batch++]);
  }
  for (Entry* entry : batch) read_times(*entry, /*wait=*/false);
  const Locked<ActivityLog> log;
  entries->reading = false;
  log->read.notify_all();
}

bool record(StreamState& stream, ob_event event) noexcept {
  if (OB_ASK(event_record, event, stream.queue) != OB_OK) return false;
  stream.mark_submitted();
  return true;
}

}  // namespace

// ---- Correlation ----

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

void Recording::start() {
  auto fresh = std::make_shared<RecordedEntries>();
  const Locked<ActivityLog> log;
  if (entries_ != nullptr && entries_ == log->current) return;
  entries_.swap(fresh);  // earlier events go back to the driver without the lock
  log->current = entries_;
  g_recording.store(true, std::memory_order_relaxed);
}

void Recording::stop() noexcept {
  if (entries_ == nullptr || in_bad_fork()) return;
  const Locked<ActivityLog> log;
  if (entries_ != log->current) return;
  log->current.reset();
  g_recording.store(false, std::memory_order_relaxed);
}

std::vector<Activity> Recording::take() {
  if (entries_ == nullptr || in_bad_fork()) return {};
  std::deque<Entry> taken;
  {
    Locked<ActivityLog> log;
    log->read.wait(log.lock(), [this] { return !entries_->reading; });
    taken.swap(entries_->all);
    entries_->next_batch = 0;
  }
  std::vector<Activity> activities;
  activities.reserve(taken.size());
  for (Entry& entry : taken) {
    if (usable_driver() != nullptr) read_times(entry, /*wait=*/true);
    activities.push_back(std::move(entry.activity));
  }
  return activities;
}

// ---- Scopes ----

struct RecordedWork::Work {
  StreamState& stream;
  Activity activity;
  TimingEvents events;
  bool by_launch = false;  // the driver records the events itself
};

void RecordedHostCall::finish() noexcept {
  Activity activity;
  activity.call = call_;
  activity.thread = thread_number();
  activity.correlation = current_correlation();
  activity.call_begin = begin_;
  activity.call_end = host_nanoseconds();
  log_activity(std::move(activity), {});
}

void RecordedWork::begin(StreamState& stream, ActivityKind kind, const char* call, const char* name,
                         uint64_t bytes) {
  const ob_driver& table = driver();
  work_ = new Work{stream, {}, {}};
  Activity& activity = work_->activity;
  activity.kind = kind;
  activity.call = call;
  activity.name = name;
  activity.thread = thread_number();
  activity.correlation = current_correlation();
  activity.device = stream.device;
  activity.stream = stream.id;
  activity.bytes = bytes;
  work_->by_launch = kind == ActivityKind::kKernel &&
                     (device_properties(stream.device).features & OB_FEATURE_LAUNCH_EVENTS) != 0;
  // Work that is captured into a graph does not run now.
  if (!stream.capturing.load(std::memory_order_acquire) &&
      work_->events.create(table, stream.device) && !work_->by_launch &&
      !record(stream, work_->events.begin.get())) {
    work_->events = {};
  }
  activity.call_begin = host_nanoseconds();
}

void RecordedWork::describe(const std::string& kernel, ob_launch& launch, uint64_t local_memory) {
  Activity& activity = work_->activity;
  activity.name = kernel;
  activity.local_memory = local_memory;
  std::copy_n(launch.global, activity.global.size(), activity.global.begin());
  std::copy_n(launch.local, activity.local.size(), activity.local.begin());
  if (!work_->by_launch || work_->events.end == nullptr) return;
  launch.start = work_->events.begin.get();
  launch.end = work_->events.end.get();
}

void RecordedWork::finish() noexcept {
  const std::unique_ptr<Work> work(std::exchange(work_, nullptr));
  work->activity.call_end = host_nanoseconds();
  if (work->events.end != nullptr && !work->by_launch &&
      !record(work->stream, work->events.end.get())) {
    work->events = {};
  }
  log_activity(std::move(work->activity), std::move(work->events));
  read_finished_work();
}

void RecordedWork::discard() noexcept { delete std::exchange(work_, nullptr); }

}  // namespace outboard
