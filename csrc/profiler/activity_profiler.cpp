// Device activities for torch.profiler. PyTorch without Kineto has none; its profiler gets device
// times by events around operators (profiler_stubs.cpp).
#ifdef USE_KINETO

#include <IActivityProfiler.h>
#include <libkineto.h>
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#define OUTBOARD_HAS_PROFILER_REGISTRY
#endif

#include <algorithm>
#include <memory>
#include <set>
#include <string>

#include "profiler/activity_session.h"

namespace outboard {
namespace {

using libkineto::ActivityType;

class ActivityProfiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const auto* name = new std::string("torch_outboard");
    return *name;
  }

  const std::set<ActivityType>& availableActivities() const override {
    static const auto* types = new std::set<ActivityType>{
        ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
        ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
    return *types;
  }

  // A host-only profile records nothing, even if driver calls are wanted.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      const std::set<ActivityType>& wanted, const libkineto::Config&) override {
    const auto& ours = availableActivities();
    const bool device = std::any_of(wanted.begin(), wanted.end(), [&ours](ActivityType type) {
      return type != ActivityType::PRIVATEUSE1_RUNTIME && ours.contains(type);
    });
    return device ? make_activity_session(wanted) : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(
      int64_t, int64_t, const std::set<ActivityType>& wanted,
      const libkineto::Config& config) override {
    return configure(wanted, config);
  }
};

[[maybe_unused]] const bool profiler_registered = [] {
  const auto make = [] { return std::make_unique<ActivityProfiler>(); };
#ifdef OUTBOARD_HAS_PROFILER_REGISTRY
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(make);
#else
  libkineto::api().registerProfilerFactory(make);
#endif
  return true;
}();

}  // namespace
}  // namespace outboard

#endif
