#include "runtime/hard_exit.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace outboard {
namespace {

std::atomic<bool> g_hard{false};

#ifdef __GLIBC__
void end_process(int status, void*) {
  if (!g_hard.load()) return;
  std::fflush(nullptr);
  _exit(status);
}
#endif

}  // namespace

void prepare_hard_exit() noexcept {
#ifdef __GLIBC__  // elsewhere the status is not known
  on_exit(&end_process, nullptr);
#endif
}

void exit_without_driver() noexcept { g_hard.store(true); }

}  // namespace outboard
