#include "runtime/process.h"

#include <c10/util/Exception.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace outboard {
namespace {

std::atomic<bool> g_bad_fork{false};
std::atomic<bool> g_exit_without_driver{false};

#ifdef __GLIBC__
void end_process(int status, void*) {
  if (!g_exit_without_driver.load()) return;
  std::fflush(nullptr);
  _exit(status);
}
#endif

}  // namespace

bool in_bad_fork() noexcept { return g_bad_fork.load(std::memory_order_relaxed); }

void check_fork() {
  TORCH_CHECK(!in_bad_fork(),
              "the device cannot be used in a forked child of a process that already used it; "
              "start workers with the 'spawn' or 'forkserver' method of multiprocessing");
}

void watch_process() noexcept {
  pthread_atfork(nullptr, nullptr, [] { g_bad_fork.store(true, std::memory_order_relaxed); });
#ifdef __GLIBC__  // other C libraries do not pass the status to exit handlers
  on_exit(&end_process, nullptr);
#endif
}

void exit_without_driver() noexcept { g_exit_without_driver.store(true); }

}  // namespace outboard
