#include "runtime/fork.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <atomic>

namespace outboard {
namespace {

std::atomic<bool> g_bad_fork{false};

void in_child() { g_bad_fork.store(true, std::memory_order_relaxed); }

}  // namespace

bool in_bad_fork() noexcept { return g_bad_fork.load(std::memory_order_relaxed); }

void check_fork() {
  TORCH_CHECK(!in_bad_fork(),
              "the device cannot be used in a forked child of a process that already used it; "
              "start workers with the 'spawn' or 'forkserver' method of multiprocessing");
}

void watch_forks() noexcept {
  static const int registered = pthread_atfork(nullptr, nullptr, &in_child);
  (void)registered;
}

}  // namespace outboard
