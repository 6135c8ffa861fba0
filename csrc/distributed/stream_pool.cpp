#include "distributed/stream_pool.h"

#include <map>
#include <mutex>
#include <vector>

#include "runtime/driver/device.h"

namespace outboard::distributed {
namespace {

struct FreeStreams {
  std::mutex mutex;
  std::map<c10::DeviceIndex, std::vector<c10::Stream>> streams;
};

FreeStreams& free_streams() {
  static auto* instance = new FreeStreams;
  return *instance;
}

}  // namespace

c10::Stream take_stream(c10::DeviceIndex device) {
  FreeStreams& all = free_streams();
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    auto& free = all.streams[device];
    if (!free.empty()) {
      const c10::Stream stream = free.back();
      free.pop_back();
      return stream;
    }
  }
  return new_stream(device, device_properties(device).greatest_priority);
}

void give_back_stream(const c10::Stream& stream) noexcept {
  FreeStreams& all = free_streams();
  try {
    if (!query_stream(stream)) return;
    std::lock_guard<std::mutex> lock(all.mutex);
    all.streams[stream.device_index()].push_back(stream);
  } catch (const std::exception&) {
    // The stream has failed and is not reused.
  }
}

}  // namespace outboard::distributed
