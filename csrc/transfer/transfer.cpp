#include "transfer/copy.h"

#include <c10/util/ScopeExit.h>

#include <algorithm>
#include <tuple>

#include "runtime/driver/driver_table.h"
#include "runtime/memory/pinned_memory.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/event.h"
#include "runtime/streams/wait.h"

namespace outboard {

namespace {

// A driver without 2-D copies issues a copy per row, which costs about a microsecond each.
constexpr int64_t kFewRows = 16;
constexpr int64_t kLongRow = 512;  // bytes
constexpr int64_t kMostRepetitions = 1024;

}  // namespace

int64_t CopyPlan::repetitions() const {
  int64_t result = 1;
  for (const CopyLoop& loop : loops) result *= loop.count;
  return result;
}

bool CopyPlan::suits_driver() const {
  if (dense()) return true;
  const int64_t times = repetitions();
  return rows * times <= kFewRows || (row_bytes >= kLongRow && times <= kMostRepetitions);
}

CopyPlan plan_copy(c10::IntArrayRef sizes, c10::IntArrayRef destination_strides,
                   c10::IntArrayRef source_strides, int64_t itemsize) {
  // Dimensions from the innermost (smallest strides) to the outermost.
  c10::SmallVector<CopyLoop, 6> dims;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    dims.push_back({sizes[i], destination_strides[i] * itemsize, source_strides[i] * itemsize});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const CopyLoop& a, const CopyLoop& b) {
    return std::tie(a.destination_step, a.source_step) <
           std::tie(b.destination_step, b.source_step);
  });

  c10::SmallVector<CopyLoop, 6> merged;
  for (const CopyLoop& dim : dims) {
    if (!merged.empty()) {
      CopyLoop& inner = merged.back();
      if (dim.destination_step == inner.destination_step * inner.count &&
          dim.source_step == inner.source_step * inner.count) {
        inner.count *= dim.count;
        continue;
      }
    }
    merged.push_back(dim);
  }

  CopyPlan plan;
  plan.row_bytes = itemsize;
  auto outer = merged.begin();
  if (outer != merged.end() && outer->destination_step == itemsize &&
      outer->source_step == itemsize) {
    plan.row_bytes *= outer->count;
    ++outer;
  }
  auto rows = merged.end();
  for (auto dim = outer; dim != merged.end(); ++dim) {
    if (dim->destination_step >= plan.row_bytes && dim->source_step >= plan.row_bytes &&
        (rows == merged.end() || dim->count > rows->count)) {
      rows = dim;
    }
  }
  if (rows != merged.end()) {
    plan.rows = rows->count;
    plan.destination_pitch = rows->destination_step;
    plan.source_pitch = rows->source_step;
  }
  for (auto dim = outer; dim != merged.end(); ++dim) {
    if (dim != rows) plan.loops.push_back(*dim);
  }
  return plan;
}

namespace {

void* host_pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

void enqueue_rows(ob_queue queue, Location destination, Location source, const CopyPlan& plan) {
  if (source.device == kHost) {
    OB_CALL(copy_host_to_device_2d, queue, destination.address, plan.destination_pitch,
            host_pointer(source.address), plan.source_pitch, plan.row_bytes, plan.rows);
  } else if (destination.device == kHost) {
    OB_CALL(copy_device_to_host_2d, queue, host_pointer(destination.address),
            plan.destination_pitch, source.address, plan.source_pitch, plan.row_bytes, plan.rows);
  } else {
    OB_CALL(copy_device_to_device_2d, queue, destination.address, plan.destination_pitch,
            source.address, plan.source_pitch, plan.row_bytes, plan.rows);
  }
}

void enqueue_run(ob_queue queue, Location destination, Location source, uint64_t bytes) {
  if (source.device == kHost) {
    OB_CALL(copy_host_to_device, queue, destination.address, host_pointer(source.address), bytes);
  } else if (destination.device == kHost) {
    OB_CALL(copy_device_to_host, queue, host_pointer(destination.address), source.address, bytes);
  } else if (source.device == destination.device) {
    OB_CALL(copy_device_to_device, queue, destination.address, source.address, bytes);
  } else {
    OB_CALL(copy_peer, queue, destination.device, destination.address, source.device,
            source.address, bytes);
  }
}

}  // namespace

void enqueue_copy(StreamState& stream, Location destination, Location source,
                  const CopyPlan& plan) {
  const bool between_devices =
      source.device != kHost && destination.device != kHost && source.device != destination.device;
  RecordedCopy record(stream, destination.device, source.device, plan.bytes());
  for (int64_t i = 0; i < plan.repetitions(); ++i) {
    Location to = destination, from = source;
    int64_t rest = i;
    for (const CopyLoop& loop : plan.loops) {
      to.address += rest % loop.count * loop.destination_step;
      from.address += rest % loop.count * loop.source_step;
      rest /= loop.count;
    }
    // Also if a call fails: a copy row by row may have enqueued some rows.
    const auto mark = c10::make_scope_exit([&stream] { stream.mark_submitted(); });
    if (plan.rows == 1) {
      enqueue_run(stream.queue, to, from, plan.row_bytes);
    } else if (between_devices) {
      for (int64_t row = 0; row < plan.rows; ++row) {
        enqueue_run(stream.queue, {to.device, to.address + row * plan.destination_pitch},
                    {from.device, from.address + row * plan.source_pitch}, plan.row_bytes);
      }
    } else {
      enqueue_rows(stream.queue, to, from, plan);
    }
  }
  record.enqueued();
}

void enqueue_copy(StreamState& stream, Location destination, Location source, int64_t bytes) {
  CopyPlan plan;
  plan.row_bytes = bytes;
  enqueue_copy(stream, destination, source, plan);
}

bool keep_pinned_until_copied(const c10::Storage& host, StreamState& stream) {
  if (!is_pinned(host.data())) return false;
  if (is_registered(host.data())) return true;  // freed only after waiting for all devices
  const c10::DataPtr& pointer = host.data_ptr();
  return pinned_allocator()->record_event(const_cast<void*>(pointer.get()), pointer.get_context(),
                                          stream.stream());
}

HostMemoryInUse::~HostMemoryInUse() {
  if (waited_ || stream_.idle()) return;
  const ob_status status = wait_for_queue_once(driver(), stream_.queue);
  if (status == OB_OK) return;
  defer_status(status, "queue_synchronize");
  new at::Tensor(host_);
}

void HostMemoryInUse::wait() {
  synchronize_stream(stream_);
  waited_ = true;
  raise_deferred();
}

void enqueue_wait(const c10::Stream& waiting, const c10::Stream& awaited) {
  Event event;
  event.record(awaited);
  event.block(waiting);
}

}  // namespace outboard
