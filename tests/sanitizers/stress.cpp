// Threads that use the runtime and its allocators in random order, for ThreadSanitizer.
//
//   stress LIBRARY SECONDS SEED
//
// LIBRARY is a driver whose devices give work to threads of their own. What threads write through a
// stream is read back and compared, so that memory given to two owners shows without a sanitizer,
// too. Exit status 1: something was wrong.
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/memory/shared_memory.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/streams/event.h"
#include "runtime/generator.h"
#include "runtime/programs/device_assert.h"
#include "runtime/memory/pinned_memory.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

constexpr c10::DeviceIndex kDevice = 0;
constexpr int kThreads = 6;
constexpr size_t kMostHeld = 24;

using Clock = std::chrono::steady_clock;

std::atomic<int> g_wrong{0};

void expect(bool right, const char* what) {
  if (right) return;
  g_wrong.fetch_add(1);
  std::fprintf(stderr, "wrong: %s\n", what);
}

struct Memory {
  c10::DataPtr pointer;
  size_t bytes = 0;
  c10::Stream stream = default_stream(kDevice);
};

// Memory that threads leave for others to free.
struct Exchange {
  std::mutex mutex;
  std::vector<Memory> memory;
};

Exchange& exchange() {
  static auto* instance = new Exchange;
  return *instance;
}

class Worker {
 public:
  explicit Worker(unsigned seed) : random_(seed) {}

  void step() {
    using Step = void (Worker::*)();
    static constexpr Step kSteps[] = {
        &Worker::allocate,          &Worker::allocate,  &Worker::allocate,
        &Worker::free_one,          &Worker::free_one,  &Worker::fill_and_read,
        &Worker::use_elsewhere,     &Worker::give_away, &Worker::run_host_kernel,
        &Worker::use_pinned_memory, &Worker::adopt,     &Worker::switch_stream,
        &Worker::expect_no_fault,   &Worker::ask,
    };
    (this->*kSteps[below(std::size(kSteps))])();
  }

  void clear() { held_.clear(); }

 private:
  uint32_t below(uint32_t end) { return random_() % end; }
  size_t some_bytes() { return size_t{1} + random_() % (size_t{1} << below(19)); }
  StreamState& stream() { return current_stream_state(kDevice); }

  void allocate() {
    if (held_.size() >= kMostHeld) free_one();
    const size_t bytes = some_bytes();
    held_.push_back({caching_allocator()->allocate_on(stream(), bytes), bytes, stream().stream()});
  }

  void free_one() {
    if (held_.empty()) return;
    std::swap(held_[below(held_.size())], held_.back());
    held_.pop_back();
  }

  static void fill(StreamState& state, const Memory& memory, uint8_t value) {
    OB_CALL(fill, state.queue, reinterpret_cast<ob_address>(memory.pointer.get()), &value, 1,
            memory.bytes);
    state.mark_submitted();
  }

  // Memory of the thread's own, given back while its work may still run.
  void fill_and_read() {
    StreamState& state = stream();
    const size_t bytes = some_bytes();
    Memory memory{caching_allocator()->allocate_on(state, bytes), bytes, state.stream()};
    const auto value = static_cast<uint8_t>(random_());
    fill(state, memory, value);
    if (below(2) == 0) return;
    std::vector<uint8_t> read(bytes);
    OB_CALL(copy_device_to_host, state.queue, read.data(),
            reinterpret_cast<ob_address>(memory.pointer.get()), bytes);
    state.mark_submitted();
    synchronize_stream(state);
    for (const uint8_t one : read) {
      if (one == value) continue;
      expect(false, "memory of one owner was written by another");
      break;
    }
  }

  void use_elsewhere() {
    if (held_.empty()) return;
    Memory& memory = held_[below(held_.size())];
    const c10::Stream other = stream_from_pool(kDevice, 0);
    Event ready(below(2) == 0);
    ready.record(memory.stream);
    ready.block(other);
    caching_allocator()->recordStream(memory.pointer, other);
    fill(stream_state(other), memory, 7);
    Event done;
    done.record(other);
    done.block(memory.stream);
    if (below(4) == 0) done.synchronize();
    done.query();
  }

  void give_away() {
    Memory taken;
    {
      Exchange& others = exchange();
      std::lock_guard<std::mutex> lock(others.mutex);
      if (!held_.empty() && others.memory.size() < kMostHeld) {
        others.memory.push_back(std::move(held_.back()));
        held_.pop_back();
      }
      if (!others.memory.empty() && below(2) == 0) {
        taken = std::move(others.memory.front());
        others.memory.erase(others.memory.begin());
      }
    }
  }

  // CPU memory that a host kernel writes as soon as it has it.
  void run_host_kernel() {
    StreamState& state = stream();
    synchronize_stream(state);
    const CpuKernelMemory scope(state);
    const size_t bytes = some_bytes();
    const auto value = static_cast<uint8_t>(random_());
    const c10::DataPtr memory = c10::GetCPUAllocator()->allocate(bytes);
    std::memset(memory.get(), value, bytes);
    std::this_thread::yield();
    const auto* data = static_cast<const uint8_t*>(memory.get());
    expect(data[0] == value && data[bytes - 1] == value, "a host kernel's memory was written");
  }

  void use_pinned_memory() {
    StreamState& state = stream();
    const size_t bytes = some_bytes();
    const c10::DataPtr host = pinned_allocator()->allocate(bytes);
    expect(is_pinned(host.get()), "pinned memory is not known");
    const Memory memory{caching_allocator()->allocate_on(state, bytes), bytes, state.stream()};
    std::memset(host.get(), 1, bytes);
    OB_CALL(copy_host_to_device, state.queue, reinterpret_cast<ob_address>(memory.pointer.get()),
            host.get(), bytes);
    state.mark_submitted();
    pinned_allocator()->record_event(host.get(), host.get_context(), state.stream());
  }

  void adopt() {
    if (!adopts_host_memory(kDevice)) return;
    const size_t bytes = some_bytes();
    const c10::Storage host(c10::Storage::use_byte_size_t(), bytes,
                            c10::GetCPUAllocator()->allocate(bytes), nullptr, false);
    const Memory memory{adopt_memory(host, stream()), bytes, stream().stream()};
    fill(stream(), memory, 3);
    const c10::Stream other = stream_from_pool(kDevice, 0);
    Event filled;
    filled.record(memory.stream);
    filled.block(other);
    caching_allocator()->recordStream(memory.pointer, other);
    fill(stream_state(other), memory, 3);
  }

  void switch_stream() {
    exchange_stream(below(3) == 0 ? stream_from_pool(kDevice, 0) : default_stream(kDevice));
  }

  void expect_no_fault() {
    static DeviceAssert& fault =
        DeviceAssert::interned(kDevice, DeviceAssert::Kind::kRuntimeError, "nothing was wrong");
    expect_assert(stream(), fault);
    synchronize_stream(stream());
    raise_deferred();
  }

  void ask() {
    const std::function<void()> questions[] = {
        [] { caching_allocator()->emptyCache(); },
        [] { caching_allocator()->snapshot(); },
        [] { caching_allocator()->getMemoryInfo(kDevice); },
        [] { synchronize_device(kDevice); },
        [] { reserve_philox(std::nullopt, kDevice, 4); },
        [this] { query_stream(stream().stream()); },
        [this] { synchronize_stream(stream().stream()); },
        [] {
          const auto statistics = caching_allocator()->getDeviceStats(kDevice);
          expect(statistics.allocated_bytes[0].current >= 0, "a statistic");
        },
    };
    questions[below(std::size(questions))]();
  }

  std::mt19937 random_;
  std::vector<Memory> held_;
};

int run(const char* library, double seconds, unsigned seed) {
  use_driver_library("host", library);
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  std::vector<std::thread> threads;
  std::atomic<uint64_t> steps{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Worker worker(seed * kThreads + i);
      try {
        while (Clock::now() < end && g_wrong.load() == 0) {
          worker.step();
          steps.fetch_add(1, std::memory_order_relaxed);
        }
        worker.clear();
      } catch (const std::exception& error) {
        expect(false, error.what());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  exchange().memory.clear();
  synchronize_device(kDevice);
  release_unused_adopted_memory();
  const auto statistics = caching_allocator()->getDeviceStats(kDevice);
  expect(statistics.allocated_bytes[0].current == 0, "memory is left without an owner");
  std::printf("%llu steps\n", static_cast<unsigned long long>(steps.load()));

  // The process ends while a thread goes on.
  std::thread late([&] {
    Worker worker(seed);
    try {
      for (;;) worker.step();
    } catch (const std::exception&) {
    }
    worker.clear();
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  finalize_driver();
  late.join();
  return g_wrong.load() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace outboard

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "stress LIBRARY SECONDS SEED\n");
    return 2;
  }
  return outboard::run(arguments[1], std::atof(arguments[2]),
                       static_cast<unsigned>(std::atoi(arguments[3])));
}
