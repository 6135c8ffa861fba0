#include "runtime/memory/address_registry.h"

#include <pthread.h>

#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <utility>

namespace outboard {
namespace {

using AllocationMap = std::map<ob_address, Allocation>;

// No driver call is made under the mutex, and no allocation is destroyed.
struct Registry {
  std::shared_mutex mutex;
  std::array<AllocationMap, 2> spaces;

  AllocationMap& operator[](AddressSpace space) { return spaces[static_cast<size_t>(space)]; }
};

// Leaked: deleters run until the end of the process.
Registry& registry() {
  static Registry* instance = [] {
    // The child gets a new mutex: only the thread that locked one may unlock it, and the child's
    // thread has another id.
    pthread_atfork([] { registry().mutex.lock(); }, [] { registry().mutex.unlock(); },
                   [] { new (&registry().mutex) std::shared_mutex; });
    return new Registry();
  }();
  return *instance;
}

}  // namespace

bool add_allocation(AddressSpace space, Allocation allocation) {
  Registry& all = registry();
  std::unique_lock<std::shared_mutex> lock(all.mutex);
  const ob_address address = allocation.address;
  return all[space].try_emplace(address, std::move(allocation)).second;
}

std::optional<Allocation> remove_allocation(AddressSpace space, ob_address address) {
  Registry& all = registry();
  std::unique_lock<std::shared_mutex> lock(all.mutex);
  auto node = all[space].extract(address);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

std::optional<Allocation> find_allocation(AddressSpace space, ob_address address) {
  Registry& all = registry();
  std::shared_lock<std::shared_mutex> lock(all.mutex);
  const AllocationMap& map = all[space];
  const auto after = map.upper_bound(address);
  if (after == map.begin()) return std::nullopt;
  const Allocation& allocation = std::prev(after)->second;
  if (address - allocation.address >= allocation.bytes) return std::nullopt;
  return allocation;
}

}  // namespace outboard
