#include "runtime/streams/stream.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/settings.h"
#include "runtime/streams/event.h"
#include "runtime/streams/wait.h"

namespace outboard {

// The limit of the work in flight on one stream. A program that only enqueues would otherwise fill
// the host's memory with work, wait for minutes at its end, and hear late of errors. With a limit
// of n driver calls, every n/2 calls record a marker and wait for the previous one: at most n calls
// are in flight, and the queue never runs dry.
struct WorkLimit {
  std::mutex mutex;
  std::optional<StreamMarker> marker;
};

namespace {

// Driver calls between two markers; 0: no limit.
uint64_t calls_between_markers() {
  static const uint64_t calls = [] {
    const double allowed = number_setting("OUTBOARD_WORK_IN_FLIGHT", 1024);
    return allowed < 1 ? uint64_t{0} : std::max<uint64_t>(1, static_cast<uint64_t>(allowed / 2));
  }();
  return calls;
}

constexpr int kStreamsPerPool = 32;
constexpr int kPriorities = 4;
constexpr int kMaxStreams = 1024;

// All streams of one device. Slots are filled once and never change.
struct StreamTable {
  std::mutex mutex;
  std::array<std::atomic<StreamState*>, kMaxStreams> streams = {};
  int count = 0;
  std::array<std::array<StreamState*, kStreamsPerPool>, kPriorities> pools = {};
  std::array<std::atomic<uint32_t>, kPriorities> next = {};
};

StreamTable& stream_table(c10::DeviceIndex device) {
  return global<std::array<StreamTable, kMaxDevices>>()[device];
}

thread_local std::array<StreamState*, kMaxDevices> t_current_streams = {};

// The caller holds the table's mutex.
StreamState* add_stream(StreamTable& table, c10::DeviceIndex device, ob_queue queue,
                        int32_t priority, bool external) {
  TORCH_CHECK(table.count < kMaxStreams, "device ", device_of(device), " has ", kMaxStreams,
              " streams already; reuse streams instead of making new ones");
  auto* state = new StreamState;
  state->device = device;
  state->id = table.count;
  state->priority = priority;
  state->queue = queue;
  state->external = external;
  // OUTBOARD_WORK_IN_FLIGHT=0 sets no limit.
  if (calls_between_markers() != 0) {
    state->limit = new WorkLimit;
    state->next_check.store(calls_between_markers(), std::memory_order_relaxed);
  }
  table.streams[table.count++].store(state, std::memory_order_release);
  return state;
}

// A stream with a new queue. The caller holds the table's mutex.
StreamState* make_stream(StreamTable& table, c10::DeviceIndex device, int32_t priority) {
  ob_queue queue = nullptr;
  check_status(create_queue(driver(), device, priority, &queue), "queue_create");
  return add_stream(table, device, queue, priority, /*external=*/false);
}

// The caller has checked the index.
StreamState& default_state(c10::DeviceIndex device) {
  StreamTable& table = stream_table(device);
  if (StreamState* state = table.streams[0].load(std::memory_order_acquire)) return *state;
  std::lock_guard<std::mutex> lock(table.mutex);
  if (StreamState* state = table.streams[0].load(std::memory_order_acquire)) return *state;
  const ob_device_properties& properties = device_properties(device);
  const int32_t priority = std::clamp(0, properties.greatest_priority, properties.least_priority);
  return *make_stream(table, device, priority);
}

void mark_completed(StreamState& state, uint64_t count) noexcept {
  if (state.capturing.load(std::memory_order_acquire)) return;
  uint64_t completed = state.completed.load(std::memory_order_relaxed);
  while (completed < count &&
         !state.completed.compare_exchange_weak(completed, count, std::memory_order_acq_rel)) {
  }
}

}  // namespace

void limit_work_in_flight(StreamState& stream, uint64_t count) noexcept {
  WorkLimit& limit = *stream.limit;
  const uint64_t calls = calls_between_markers();
  std::optional<StreamMarker> earlier;
  {
    std::lock_guard<std::mutex> lock(limit.mutex);
    if (count < stream.next_check.load(std::memory_order_relaxed)) return;
    stream.next_check.store(count + calls, std::memory_order_relaxed);
    // Captured work runs at its replay, which counts as one call.
    if (stream.capturing.load(std::memory_order_acquire)) return;
    const uint64_t completed = stream.completed.load(std::memory_order_acquire);
    if (completed + calls > count && !stream.external) {
      // A program that synchronizes often enough needs no markers.
      stream.next_check.store(std::max(completed + calls, count + 1), std::memory_order_relaxed);
      limit.marker.reset();
      return;
    }
    earlier = std::exchange(limit.marker, StreamMarker(stream));
  }
  if (earlier.has_value()) earlier->wait();
}

StreamState& stream_state(const c10::Stream& stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1, "a stream of ", stream.device(),
              " was given where a stream of ", device_of(stream.device_index()), " is needed");
  const c10::DeviceIndex device = stream.device_index();
  check_device_index(device);
  if (stream.id() == 0) return default_state(device);
  StreamState* state = nullptr;
  if (stream.id() > 0 && stream.id() < kMaxStreams) {
    state = stream_table(device).streams[stream.id()].load(std::memory_order_acquire);
  }
  TORCH_CHECK(state != nullptr, "stream ", stream.id(), " of ", device_of(device),
              " does not exist; make streams with torch.Stream");
  return *state;
}

StreamState& current_stream_state(c10::DeviceIndex device) {
  if (C10_LIKELY(device >= 0 && device < kMaxDevices && !in_bad_fork())) {
    if (StreamState* state = t_current_streams[device]) return *state;
  }
  check_fork();
  check_device_index(device);
  StreamState& state = default_state(device);
  t_current_streams[device] = &state;
  return state;
}

c10::Stream default_stream(c10::DeviceIndex device) {
  check_device_index(device);
  return c10::Stream(c10::Stream::DEFAULT, device_of(device));
}

c10::Stream current_stream(c10::DeviceIndex device) {
  if (device >= 0 && device < kMaxDevices) {
    if (StreamState* state = t_current_streams[device]) return state->stream();
  }
  // No queue is made: guards ask for the current stream of unused devices.
  return c10::Stream(c10::Stream::DEFAULT, device_of(device));
}

c10::Stream exchange_stream(const c10::Stream& stream) {
  const c10::Stream previous = current_stream(stream.device_index());
  if (previous != stream) t_current_streams[stream.device_index()] = &stream_state(stream);
  return previous;
}

c10::Stream stream_from_pool(c10::DeviceIndex device, int32_t priority) {
  const ob_device_properties& properties = device_properties(device);
  priority = std::clamp(priority, properties.greatest_priority, properties.least_priority);
  const int level = std::min<int>(properties.least_priority - priority, kPriorities - 1);
  default_state(device);  // takes slot 0
  StreamTable& table = stream_table(device);
  const uint32_t slot = table.next[level].fetch_add(1) % kStreamsPerPool;
  std::lock_guard<std::mutex> lock(table.mutex);
  StreamState*& state = table.pools[level][slot];
  if (state == nullptr) state = make_stream(table, device, priority);
  return state->stream();
}

c10::Stream new_stream(c10::DeviceIndex device, int32_t priority) {
  default_state(device);  // takes slot 0
  StreamTable& table = stream_table(device);
  std::lock_guard<std::mutex> lock(table.mutex);
  return make_stream(table, device, priority)->stream();
}

c10::Stream external_stream(c10::DeviceIndex device, ob_queue queue) {
  TORCH_CHECK_VALUE(queue != nullptr, "an external stream needs a queue, and 0 was given");
  check_device_index(device);
  default_state(device);  // takes slot 0
  StreamTable& table = stream_table(device);
  std::lock_guard<std::mutex> lock(table.mutex);
  for (int i = 0; i < table.count; ++i) {
    StreamState* state = table.streams[i].load(std::memory_order_acquire);
    if (state->queue == queue) return state->stream();
  }
  return add_stream(table, device, queue, 0, /*external=*/true)->stream();
}

void throw_capturing(const StreamState& state) {
  TORCH_CHECK(
      false, "stream ", state.id, " of ", device_of(state.device),
      " is capturing a graph, and the host was asked to wait for its work; capture only what "
      "runs on the device: device kernels, copies on it and from pinned memory, and fills");
}

void synchronize_stream(StreamState& state) {
  if (C10_LIKELY(state.idle())) return;
  check_not_capturing(state);
  const uint64_t submitted = state.submitted.load(std::memory_order_acquire);
  check_wait(wait_for_queue(driver(), state.queue), "queue_synchronize");
  mark_completed(state, submitted);
}

bool query_stream(const c10::Stream& stream) {
  StreamState& state = stream_state(stream);
  if (state.idle()) return true;
  check_not_capturing(state);
  const uint64_t submitted = state.submitted.load(std::memory_order_acquire);
  const ob_status status = OB_ASK(queue_query, state.queue);
  if (status == OB_NOT_READY) return false;
  check_status(status, "queue_query");
  mark_completed(state, submitted);
  return true;
}

void synchronize_stream(const c10::Stream& stream) {
  StreamState& state = stream_state(stream);
  synchronize_stream(state);
  raise_deferred();
}

void synchronize_device(c10::DeviceIndex device) {
  check_fork();
  check_device_index(device);
  StreamTable& table = stream_table(device);
  // The driver's own function cannot be given up.
  if (driver().device_synchronize == nullptr || waits_end_early()) {
    for (auto& slot : table.streams) {
      StreamState* state = slot.load(std::memory_order_acquire);
      if (state == nullptr) break;
      synchronize_stream(*state);
    }
  }
  // The driver also knows queues without a stream.
  if (driver().device_synchronize != nullptr && !waits_are_limited()) {
    std::array<uint64_t, kMaxStreams> submitted;
    int count = 0;
    for (; count < kMaxStreams; ++count) {
      StreamState* state = table.streams[count].load(std::memory_order_acquire);
      if (state == nullptr) break;
      submitted[count] = state->submitted.load(std::memory_order_acquire);
    }
    {
      const WaitScope scope("device_synchronize");
      OB_CALL(device_synchronize, device);
    }
    for (int i = 0; i < count; ++i) mark_completed(*table.streams[i].load(), submitted[i]);
  }
  raise_deferred();
}

bool is_busy(const ob_driver& table, c10::DeviceIndex device) noexcept {
  for (auto& slot : stream_table(device).streams) {
    const StreamState* state = slot.load(std::memory_order_acquire);
    if (state == nullptr) break;
    if (!state->idle() && table.queue_query(table.context, state->queue) == OB_NOT_READY) {
      return true;
    }
  }
  return false;
}

void forget_work(c10::DeviceIndex device) noexcept {
  for (auto& slot : stream_table(device).streams) {
    StreamState* state = slot.load(std::memory_order_acquire);
    if (state == nullptr) break;
    state->completed.store(state->submitted.load(std::memory_order_acquire),
                           std::memory_order_release);
  }
}

}  // namespace outboard
