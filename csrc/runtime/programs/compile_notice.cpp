#include "runtime/programs/compile_notice.h"

#include <cstdio>
#include <exception>
#include <mutex>

#include "runtime/programs/program_disk_cache.h"
#include "runtime/settings.h"

namespace outboard {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Builds with less between them follow one another.
constexpr Seconds kGap(1);

}  // namespace

void note_build(Clock::time_point begin) noexcept {
  static std::mutex mutex;
  static Seconds total(0);
  static Clock::time_point last;
  static int programs = 0;
  static bool printed = false;
  double seconds = 0;
  int count = 0;
  try {
    std::lock_guard<std::mutex> lock(mutex);
    const Clock::time_point now = Clock::now();
    total += programs > 0 && begin - last < kGap ? now - last : now - begin;
    last = now;
    count = ++programs;
    if (printed) return;
    static const double patience = number_setting(kCompileNotice);
    seconds = total.count();
    if (patience == 0 || seconds < patience) return;
    printed = true;
  } catch (const std::exception&) {
    return;  // warnings are errors, say: no reason to fail
  }
  const char* next = disk_cache_keeps()
                         ? "they are kept on disk, where the next run finds them"
                         : "nothing keeps them for the next run (see OUTBOARD_CACHE_DIR)";
  std::fprintf(stderr,
               "torch_outboard: %.0f s went into compiling kernels so far (%d programs); %s. "
               "OUTBOARD_COMPILE_NOTICE=0 keeps this quiet.\n",
               seconds, count, next);
}

}  // namespace outboard
