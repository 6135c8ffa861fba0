// One profile of PyTorch's profiler: device activities from start to stop.
#pragma once

#ifdef USE_KINETO

#include <IActivityProfiler.h>

#include <memory>
#include <set>

namespace outboard {

// `wanted`: activity types of the trace.
std::unique_ptr<libkineto::IActivityProfilerSession> make_activity_session(
    const std::set<libkineto::ActivityType>& wanted);

}  // namespace outboard

#endif
