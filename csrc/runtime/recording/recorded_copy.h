// Copies under the names that tools for traces know.
#pragma once

#include "runtime/recording/recorded_call.h"

namespace outboard {

// A copy of bytes to and from devices, -1 for the host, enqueued on `stream`.
class RecordedCopy : public RecordedWork {
 public:
  RecordedCopy(StreamState& stream, c10::DeviceIndex destination, c10::DeviceIndex source,
               uint64_t bytes)
      : RecordedWork(stream, ActivityKind::kCopy, call(destination, source),
                     name(destination, source), bytes) {}

 private:
  static const char* call(c10::DeviceIndex destination, c10::DeviceIndex source) noexcept {
    if (source < 0) return "copy_host_to_device";
    if (destination < 0) return "copy_device_to_host";
    return destination == source ? "copy_device_to_device" : "copy_peer";
  }
  static const char* name(c10::DeviceIndex destination, c10::DeviceIndex source) noexcept {
    if (source < 0) return "Memcpy HtoD";
    if (destination < 0) return "Memcpy DtoH";
    return destination == source ? "Memcpy DtoD" : "Memcpy PtoP";
  }
};

}  // namespace outboard
