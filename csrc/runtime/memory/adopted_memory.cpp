#include "runtime/memory/adopted_memory.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/process.h"
#include "runtime/streams/event.h"

namespace outboard {
namespace {

// The context of a device pointer to adopted memory.
struct Adopted {
  c10::Storage owner;
  c10::DeviceIndex device;
  size_t bytes;
  std::vector<StreamState*> users;  // under the mutex

  bool contains(const void* pointer) const noexcept {
    return static_cast<const char*>(pointer) >= static_cast<const char*>(owner.data()) &&
           static_cast<const char*>(pointer) < static_cast<const char*>(owner.data()) + bytes;
  }
};

// A storage whose device pointer is freed, and the end of the work that uses it.
struct Release {
  c10::Storage owner;
  std::vector<StreamMarker> markers;
};

struct AdoptedMemory {
  std::mutex mutex;
  std::unordered_set<Adopted*> all;
  std::list<Release> releases;
};

// Leaked: tensors are freed at exit, too.
AdoptedMemory& adopted_memory() {
  static auto* instance = new AdoptedMemory;
  return *instance;
}

void release(void* context) noexcept {
  auto* adopted = static_cast<Adopted*>(context);
  // In a forked child another thread's lock of the mutex is never released.
  if (in_bad_fork()) {
    delete adopted;
    return;
  }
  AdoptedMemory& memory = adopted_memory();
  std::vector<StreamState*> users;
  {
    std::lock_guard<std::mutex> lock(memory.mutex);
    memory.all.erase(adopted);
    users = std::move(adopted->users);
  }
  if (driver_finalized()) {  // with it, all work that used the memory has ended
    delete adopted;
    return;
  }
  caching_allocator()->account_adopted(adopted->device, -static_cast<int64_t>(adopted->bytes));
  std::list<Release> late(1);
  for (StreamState* user : users) {
    if (!user->idle()) late.front().markers.emplace_back(*user);
  }
  if (!late.front().markers.empty()) {
    late.front().owner = adopted->owner;
    std::lock_guard<std::mutex> lock(memory.mutex);
    memory.releases.splice(memory.releases.end(), late);
  }
  delete adopted;
  release_unused_adopted_memory();
}

void add_user(Adopted& adopted, StreamState& stream) {
  auto& users = adopted.users;
  if (std::find(users.begin(), users.end(), &stream) == users.end()) users.push_back(&stream);
}

}  // namespace

c10::DataPtr adopt_memory(const c10::Storage& owner, StreamState& stream) {
  release_unused_adopted_memory();
  void* pointer = owner.mutable_data();
  auto* adopted = new Adopted{owner, stream.device, owner.nbytes(), {&stream}};
  AdoptedMemory& memory = adopted_memory();
  {
    std::lock_guard<std::mutex> lock(memory.mutex);
    memory.all.insert(adopted);
  }
  caching_allocator()->account_adopted(stream.device, static_cast<int64_t>(adopted->bytes));
  return {pointer, adopted, &release, device_of(stream.device)};
}

const c10::Storage* adopted_storage(const c10::DataPtr& pointer) noexcept {
  if (pointer.get_deleter() != &release) return nullptr;
  return &static_cast<Adopted*>(pointer.get_context())->owner;
}

void record_adopted_use(const c10::DataPtr& pointer, StreamState& stream) {
  AdoptedMemory& memory = adopted_memory();
  std::lock_guard<std::mutex> lock(memory.mutex);
  if (pointer.get_deleter() == &release) {
    add_user(*static_cast<Adopted*>(pointer.get_context()), stream);
    return;
  }
  for (Adopted* adopted : memory.all) {
    if (adopted->contains(pointer.get())) add_user(*adopted, stream);
  }
}

void release_unused_adopted_memory(bool wait) {
  AdoptedMemory& memory = adopted_memory();
  std::list<Release> pending;
  {
    std::lock_guard<std::mutex> lock(memory.mutex);
    if (memory.releases.empty()) return;
    pending.swap(memory.releases);
  }
  // The driver and the deleters of storages are called without the lock.
  std::list<Release> used;
  for (auto it = pending.begin(); it != pending.end();) {
    const auto next = std::next(it);
    const bool passed = std::all_of(
        it->markers.begin(), it->markers.end(),
        [&](const StreamMarker& marker) { return wait ? marker.wait() : marker.has_passed(); });
    if (!passed) used.splice(used.end(), pending, it);
    it = next;
  }
  std::lock_guard<std::mutex> lock(memory.mutex);
  memory.releases.splice(memory.releases.begin(), used);
}

}  // namespace outboard
