#include "runtime/memory/cpu_kernel_memory.h"

#include <c10/core/CPUAllocator.h>

#include <atomic>

#include "runtime/memory/caching/caching_allocator.h"

namespace outboard {
namespace {

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
