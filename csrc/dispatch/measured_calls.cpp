#include "dispatch/measured_calls.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "runtime/streams/stream.h"

namespace outboard {
namespace {

// Calls before turns are taken: the first may build kernels, the others are timed.
constexpr int kCallsBefore = 4;
// Two calls by each way after each other, there and back: what else the machine does hits both.
constexpr int kTurns = 16;
// Programs whose gradients come late, or in some calls only, get so many until all are known.
constexpr int kMostTurns = 64;
// What is less than this part of the time is nobody's advantage.
constexpr int64_t kMargin = 20;
constexpr size_t kMostKinds = 4096;

using Kinds =
    std::map<std::pair<std::string, std::vector<int64_t>>, std::unique_ptr<MeasuredCalls>>;

}  // namespace

MeasuredCalls* MeasuredCalls::of(std::string_view op, std::vector<int64_t> kind) {
  // Leaked: calls may be made while the process exits.
  static auto* mutex = new std::mutex;
  static auto* kinds = new Kinds;
  std::pair<std::string, std::vector<int64_t>> key(op, std::move(kind));
  std::lock_guard<std::mutex> lock(*mutex);
  const auto found = kinds->find(key);
  if (found != kinds->end()) return found->second.get();
  if (kinds->size() >= kMostKinds) return nullptr;
  const auto device = static_cast<c10::DeviceIndex>(key.second.front());
  return kinds->emplace(std::move(key), std::make_unique<MeasuredCalls>(device))
      .first->second.get();
}

bool MeasuredCalls::takes_device_way(const OperatorWays& ways, int64_t elements) {
  if (!may_try_ways(device_)) return outboard::takes_device_way(ways, device_, elements);
  std::optional<bool> turn;
  std::optional<int64_t> saved;
  {
    // Not while compilers are probed: their words may go to Python.
    std::lock_guard<std::mutex> lock(mutex_);
    turn = next_turn();
    saved = saved_;
  }
  if (turn.has_value()) return *turn && device_way_works(device_);
  if (saved.has_value()) return takes_device_way_by(device_, *saved);
  const bool on_device = outboard::takes_device_way(ways, device_, elements);
  std::lock_guard<std::mutex> lock(mutex_);
  ++calls_;
  if (calls_ > kCallsBefore && calls_ * least(on_device) >= kMeasuringPatience) {
    turns_ = std::max(turns_, 1);
  }
  return on_device;
}

// The way of a call that is for measuring; none before and after.
std::optional<bool> MeasuredCalls::next_turn() {
  if (turns_ == 0 || saved_.has_value()) return std::nullopt;
  const bool gradients_known =
      (times(Part::kBackward, true).count == 0) == (times(Part::kBackward, false).count == 0);
  const int turn = turns_ - 1;
  if (turn < kTurns || (!gradients_known && turn < kMostTurns)) {
    ++turns_;
    return turn / 2 % 2 == 0;
  }
  int64_t saved = 0;
  int64_t all = 0;
  for (const Part part : {Part::kForward, Part::kBackward}) {
    const Times& device = times(part, true);
    const Times& host = times(part, false);
    if (device.count == 0 || host.count == 0) continue;
    saved += device.least - host.least;
    all += std::min(device.least, host.least);
  }
  saved_ = std::abs(saved) * kMargin < all ? 0 : saved;
  return std::nullopt;
}

bool MeasuredCalls::wants(Part part, bool on_device) {
  if (!may_try_ways(device_)) return false;
  std::lock_guard<std::mutex> lock(mutex_);
  if (saved_.has_value()) return false;
  return turns_ > 0 || (calls_ > 1 && times(part, on_device).count < kCallsBefore);
}

void MeasuredCalls::add(Part part, bool on_device, int64_t nanoseconds) {
  std::lock_guard<std::mutex> lock(mutex_);
  Times& known = times(part, on_device);
  known.least = std::min(known.least, nanoseconds);
  ++known.count;
}

// Of what is known of a call; 0 for nothing.
int64_t MeasuredCalls::least(bool on_device) noexcept {
  int64_t sum = 0;
  for (const Part part : {Part::kForward, Part::kBackward}) {
    if (times(part, on_device).count > 0) sum += times(part, on_device).least;
  }
  return sum;
}

int64_t MeasuredCalls::wait_and_read_clock() const {
  drain(current_stream_state(device_));
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

}  // namespace outboard
