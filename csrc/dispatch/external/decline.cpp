#include "dispatch/external/decline.h"

#include <outboard/kernel.h>

#include <atomic>

namespace outboard {
namespace {

std::atomic<RecognizeDecline> g_recognize{nullptr};

}  // namespace

const char* Declined::what() const noexcept {
  return "a kernel declined a call that reached it without torch_outboard, so there is no next "
         "kernel; bring it with OUTBOARD_KERNEL, or load its library before the device is first "
         "used or in a `with torch_outboard.registering():`";
}

void set_recognize_decline(RecognizeDecline function) noexcept { g_recognize.store(function); }

bool declined() noexcept {
  try {
    throw;
  } catch (const Declined&) {
    return true;
  } catch (...) {
    const RecognizeDecline recognize = g_recognize.load();
    return recognize != nullptr && recognize();
  }
}

void decline() { throw Declined(); }

}  // namespace outboard
