#ifdef USE_KINETO

#include "profiler/trace_lanes.h"

#include <c10/util/StringUtil.h>
#include <output_base.h>

#include <type_traits>

#include "runtime/driver/device.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

// After all processes.
int64_t sort_index(c10::DeviceIndex device) { return libkineto::kExceedMaxPid + device; }

std::string stream_name(c10::DeviceIndex device, c10::StreamId id) {
  if (id == 0) return "stream 0 (default)";
  const StreamState& state = stream_state(c10::Stream(c10::Stream::UNSAFE, device_of(device), id));
  if (state.external) return c10::str("stream ", id, " (external)");
  if (state.priority != 0) return c10::str("stream ", id, " (priority ", state.priority, ")");
  return c10::str("stream ", id);
}

// Up to PyTorch 2.11 the struct has a constructor with another order of arguments.
template <class Info>
Info resource_info(c10::DeviceIndex device, c10::StreamId id) {
  const std::string name = stream_name(device, id);
  if constexpr (std::is_aggregate_v<Info>) {
    return Info{.id = id, .sortIndex = id, .deviceId = device, .name = name};
  } else {
    return Info(device, id, id, name);
  }
}

}  // namespace

std::vector<libkineto::DeviceInfo> device_infos(const Lanes& lanes) {
  std::vector<libkineto::DeviceInfo> infos;
  c10::DeviceIndex previous = -1;
  for (const auto& [device, stream] : lanes) {
    if (device == previous) continue;
    previous = device;
    infos.push_back(libkineto::DeviceInfo{device, sort_index(device), device_of(device).str(),
                                          device_properties(device).name});
  }
  return infos;
}

std::vector<libkineto::ResourceInfo> resource_infos(const Lanes& lanes) {
  std::vector<libkineto::ResourceInfo> infos;
  for (const auto& [device, stream] : lanes) {
    infos.push_back(resource_info<libkineto::ResourceInfo>(device, stream));
  }
  return infos;
}

}  // namespace outboard

#endif
