// One profile of PyTorch's profiler: what the device did from start to stop.
#pragma once

#ifdef USE_KINETO

#include <IActivityProfiler.h>

#include <memory>
#include <set>

namespace outboard {

// `wanted`: the types of activities that the trace should have.
std::unique_ptr<libkineto::IActivityProfilerSession> make_activity_session(
    const std::set<libkineto::ActivityType>& wanted);

}  // namespace outboard

#endif
