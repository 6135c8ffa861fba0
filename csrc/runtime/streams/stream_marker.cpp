#include "runtime/streams/stream_marker.h"

#include <utility>

#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/fork.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

// nullptr where the driver must not be called any more: in a forked child and at exit.
const ob_driver* usable_driver() noexcept {
  if (in_bad_fork() || driver_finalized()) return nullptr;
  try {
    return &driver();
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // namespace

StreamMarker::StreamMarker(StreamState& stream) noexcept : stream_(&stream) {
  const ob_driver* table = usable_driver();
  if (table == nullptr) return;
  ob_status status = create_event(*table, stream.device, 0, &event_);
  if (status != OB_OK) {
    defer_status(status, "event_create");
    event_ = nullptr;
    return;
  }
  status = table->event_record(table->context, event_, stream.queue);
  if (status != OB_OK) {
    defer_status(status, "event_record");
    reset();
  }
}

StreamMarker::~StreamMarker() { reset(); }

StreamMarker::StreamMarker(StreamMarker&& other) noexcept
    : stream_(other.stream_), event_(std::exchange(other.event_, nullptr)) {}

StreamMarker& StreamMarker::operator=(StreamMarker&& other) noexcept {
  if (this != &other) {
    reset();
    stream_ = other.stream_;
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

bool StreamMarker::has_passed() const noexcept {
  const ob_driver* table = usable_driver();
  if (table == nullptr) return false;
  const ob_status status = event_ != nullptr ? table->event_query(table->context, event_)
                                             : table->queue_query(table->context, stream_->queue);
  defer_status(status, event_ != nullptr ? "event_query" : "queue_query");
  // After a failed query the work may still be running: only waiting tells.
  return status == OB_OK;
}

bool StreamMarker::wait() const noexcept {
  const ob_driver* table = usable_driver();
  if (table == nullptr) return false;
  if (event_ != nullptr) {
    const ob_status status = wait_for_event(*table, event_);
    if (status == OB_OK || status == OB_NOT_READY) return status == OB_OK;
    defer_status(status, "event_synchronize");
  }
  // Has waited also when it reports a failure, as that is of the work.
  const ob_status status = wait_for_queue(*table, stream_->queue);
  defer_status(status, "queue_synchronize");
  return status != OB_NOT_READY;
}

void StreamMarker::reset() noexcept {
  ob_event event = std::exchange(event_, nullptr);
  const ob_driver* table = event != nullptr ? usable_driver() : nullptr;
  if (table != nullptr) defer_status(table->event_destroy(table->context, event), "event_destroy");
}

}  // namespace outboard
