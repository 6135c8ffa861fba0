#include "runtime/thread_costs.h"

namespace outboard {

ThreadCosts& thread_costs() noexcept {
  thread_local ThreadCosts costs;
  return costs;
}

}  // namespace outboard
