#include "runtime/memory/shared_memory.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/streams/event.h"

namespace outboard {
namespace {

// ---- Adopted memory ----

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
  std::unordered_set<Adopted*> all;
  std::vector<Release> releases;
};

void release(void* context) noexcept {
  auto* adopted = static_cast<Adopted*>(context);
  // In a forked child another thread's lock of the mutex is never released.
  if (in_bad_fork()) {
    delete adopted;
    return;
  }
  std::vector<StreamState*> users;
  {
    const Locked<AdoptedMemory> memory;
    memory->all.erase(adopted);
    users = std::move(adopted->users);
  }
  if (driver_finalized()) {  // with it, all work that used the memory has ended
    delete adopted;
    return;
  }
  caching_allocator()->account_adopted(adopted->device, -static_cast<int64_t>(adopted->bytes));
  Release late{adopted->owner, {}};
  for (StreamState* user : users) {
    if (!user->idle()) late.markers.emplace_back(*user);
  }
  if (!late.markers.empty()) Locked<AdoptedMemory>()->releases.push_back(std::move(late));
  delete adopted;
  release_unused_adopted_memory();
}

void add_user(Adopted& adopted, StreamState& stream) {
  auto& users = adopted.users;
  if (std::find(users.begin(), users.end(), &stream) == users.end()) users.push_back(&stream);
}

// ---- Allocations of CPU kernels ----

// The stream of this thread's innermost scope. Every CPU allocation of the process reads it, hence
// the cheapest kind of thread-local variable.
__attribute__((tls_model("initial-exec"))) thread_local StreamState* t_stream = nullptr;

std::atomic<c10::Allocator*> g_wrapped{nullptr};

// The CPU allocator that is wrapped; before the first scope, PyTorch's default one.
c10::Allocator& wrapped() noexcept {
  c10::Allocator* allocator = g_wrapped.load(std::memory_order_acquire);
  return allocator != nullptr ? *allocator : *c10::GetDefaultCPUAllocator();
}

// Frees memory of a scope and of the wrapped allocator: the raw interface of c10::Allocator has one
// deleter for both.
void delete_either(void* pointer) {
  if (pointer == nullptr || caching_allocator()->free_addressed(pointer)) return;
  wrapped().raw_deallocate(pointer);
}

// The context of our CPU DataPtrs is their address, so raw_allocate works inside a scope.
class CpuKernelAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    StreamState* stream = t_stream;
    if (C10_LIKELY(stream == nullptr) || bytes == 0) return wrapped().allocate(bytes);
    void* memory = caching_allocator()->allocate_addressed(*stream, bytes);
    c10::DataPtr pointer(memory, memory, &delete_either, c10::Device(c10::DeviceType::CPU));
    // Another thread may have enqueued work on the stream since this scope began, and then freed
    // the memory that this work uses.
    synchronize_stream(*stream);
    return pointer;
  }

  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override {
    return pointer.get_deleter() == &delete_either || wrapped().is_simple_data_ptr(pointer);
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return wrapped().raw_deleter() != nullptr ? &delete_either : nullptr;
  }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    wrapped().copy_data(destination, source, bytes);
  }
};

// PyTorch stores its allocators in plain pointers that all threads read. The object is therefore
// constructed when the library is loaded: a thread that reads the new pointer finds it complete,
// and the old pointer stays valid.
CpuKernelAllocator& cpu_kernel_allocator() {
  static auto* instance = new CpuKernelAllocator();
  return *instance;
}
[[maybe_unused]] CpuKernelAllocator& g_made_at_load = cpu_kernel_allocator();

void wrap_cpu_allocator() {
  g_wrapped.store(c10::GetAllocator(c10::DeviceType::CPU), std::memory_order_release);
  // The highest priority: it replaces the allocator that is wrapped.
  c10::SetAllocator(c10::DeviceType::CPU, &cpu_kernel_allocator(), UINT8_MAX);
}

}  // namespace

c10::DataPtr adopt_memory(const c10::Storage& owner, StreamState& stream) {
  release_unused_adopted_memory();
  void* pointer = owner.mutable_data();
  auto* adopted = new Adopted{owner, stream.device, owner.nbytes(), {&stream}};
  Locked<AdoptedMemory>()->all.insert(adopted);
  caching_allocator()->account_adopted(stream.device, static_cast<int64_t>(adopted->bytes));
  return {pointer, adopted, &release, device_of(stream.device)};
}

const c10::Storage* adopted_storage(const c10::DataPtr& pointer) noexcept {
  if (pointer.get_deleter() != &release) return nullptr;
  return &static_cast<Adopted*>(pointer.get_context())->owner;
}

void record_adopted_use(const c10::DataPtr& pointer, StreamState& stream) {
  const Locked<AdoptedMemory> memory;
  if (pointer.get_deleter() == &release) {
    add_user(*static_cast<Adopted*>(pointer.get_context()), stream);
    return;
  }
  for (Adopted* adopted : memory->all) {
    if (adopted->contains(pointer.get())) add_user(*adopted, stream);
  }
}

void release_unused_adopted_memory(bool wait) {
  std::vector<Release> pending;
  {
    const Locked<AdoptedMemory> memory;
    if (memory->releases.empty()) return;
    pending.swap(memory->releases);
  }
  // The driver and the deleters of storages are called without the lock.
  const auto unused = std::partition(pending.begin(), pending.end(), [&](const Release& release) {
    return !std::all_of(
        release.markers.begin(), release.markers.end(),
        [&](const StreamMarker& marker) { return wait ? marker.wait() : marker.has_passed(); });
  });
  const Locked<AdoptedMemory> memory;
  std::move(pending.begin(), unused, std::back_inserter(memory->releases));
}

CpuKernelMemory::CpuKernelMemory(StreamState& state) noexcept : previous_(t_stream) {
  if (!shares_host_memory(state.device)) return;
  [[maybe_unused]] static const bool wrapped = (wrap_cpu_allocator(), true);
  t_stream = &state;
}

CpuKernelMemory::~CpuKernelMemory() { t_stream = previous_; }

bool is_cpu_kernel_memory(const c10::DataPtr& pointer) noexcept {
  return pointer.get_deleter() == &delete_either;
}

}  // namespace outboard
