// The lanes of a trace: a group per device with a lane per stream.
#pragma once

#ifdef USE_KINETO

#include <IActivityProfiler.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <set>
#include <utility>
#include <vector>

namespace outboard {

using Lanes = std::set<std::pair<c10::DeviceIndex, c10::StreamId>>;

// Names and order of the devices and streams of these lanes.
std::vector<libkineto::DeviceInfo> device_infos(const Lanes& lanes);
std::vector<libkineto::ResourceInfo> resource_infos(const Lanes& lanes);

}  // namespace outboard

#endif
