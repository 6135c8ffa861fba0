#include "runtime/streams/deferred_failure.h"

#include <atomic>
#include <mutex>
#include <utility>

namespace outboard {
namespace {

// Leaked: queues work until the end of the process.
struct Deferred {
  std::mutex mutex;
  std::exception_ptr failure;
};

Deferred& deferred() {
  static Deferred* instance = new Deferred;
  return *instance;
}

std::atomic<bool> g_failed{false};

}  // namespace

void defer_failure(std::exception_ptr failure) noexcept {
  Deferred& all = deferred();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.failure == nullptr) all.failure = std::move(failure);
  g_failed.store(true, std::memory_order_release);
}

void forget_failure(const std::exception_ptr& failure) noexcept {
  Deferred& all = deferred();
  std::lock_guard<std::mutex> lock(all.mutex);
  if (all.failure != failure) return;
  all.failure = nullptr;
  g_failed.store(false, std::memory_order_release);
}

void raise_deferred_failure() {
  if (!g_failed.load(std::memory_order_acquire)) return;
  Deferred& all = deferred();
  std::exception_ptr failure;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    failure = std::exchange(all.failure, nullptr);
    g_failed.store(false, std::memory_order_release);
  }
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace outboard
