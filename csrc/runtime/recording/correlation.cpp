#include "runtime/recording/correlation.h"

#include <atomic>
#include <utility>
#include <vector>

namespace outboard {
namespace {

std::atomic<uint64_t> g_profile{0};

struct Stacks {
  uint64_t profile = 0;
  std::vector<uint64_t> operations;
  std::shared_ptr<const UserRange> ranges;
};

// The calling thread's, empty at the beginning of each profile.
Stacks& stacks() {
  thread_local Stacks mine;
  const uint64_t profile = g_profile.load(std::memory_order_relaxed);
  if (mine.profile != profile) {
    mine.profile = profile;
    mine.operations.clear();
    mine.ranges.reset();
  }
  return mine;
}

}  // namespace

Correlation current_correlation() {
  const Stacks& mine = stacks();
  return {mine.operations.empty() ? 0 : mine.operations.back(), mine.ranges};
}

void begin_correlation() noexcept { g_profile.fetch_add(1, std::memory_order_relaxed); }

void push_operation(uint64_t id) { stacks().operations.push_back(id); }

void pop_operation() noexcept {
  auto& operations = stacks().operations;
  if (!operations.empty()) operations.pop_back();
}

void push_user_range(uint64_t id) {
  auto& ranges = stacks().ranges;
  ranges = std::make_shared<const UserRange>(UserRange{id, std::move(ranges)});
}

void pop_user_range() noexcept {
  auto& ranges = stacks().ranges;
  if (ranges != nullptr) ranges = ranges->outer;
}

}  // namespace outboard
