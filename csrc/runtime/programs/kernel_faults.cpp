#include "runtime/programs/kernel_faults.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/driver/driver_requests.h"
#include "runtime/driver/driver_table.h"
#include "runtime/settings.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

constexpr int kWordsPerPage = 1024;

constexpr uint64_t kPageBytes = kWordsPerPage * sizeof(int);

struct Words {
  std::mutex mutex;
  std::vector<FaultPage*> pages;
  int used = kWordsPerPage;  // of the last page
};

Words& words_of(c10::DeviceIndex device) {
  static auto* words = new std::array<Words, kMaxDevices>;  // leaked: kernels may run until exit
  return (*words)[device];
}

// A kernel that was launched, and how much of its stream has to be done for it to be done.
struct Expected {
  KernelFault* fault;
  StreamState* stream;
  uint64_t submitted;
};

struct Expectations {
  std::mutex mutex;
  std::vector<Expected> list;
  std::vector<Expected> captured;  // of kernels that replays will launch
};

Expectations& expectations() {
  static auto* all = new Expectations;
  return *all;
}

std::atomic<bool> g_expects{false};

void fill_with_zeros(c10::DeviceIndex device, uint64_t address, uint64_t bytes) {
  if (shares_host_memory(device)) {
    std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return;
  }
  // A queue of its own: the current stream may be capturing a graph.
  ob_queue queue = nullptr;
  const int zero = 0;
  check_status(create_queue(driver(), device, 0, &queue), "queue_create");
  ob_status status = OB_ASK(fill, queue, address, &zero, sizeof zero, bytes);
  if (status == OB_OK) status = wait_for_queue(driver(), queue);
  defer_status(OB_ASK(queue_destroy, queue), "queue_destroy");
  check_wait(status, "fill");
}

uint64_t allocate_page(c10::DeviceIndex device) {
  uint64_t address = 0;
  check_status(allocate_memory(driver(), device, kPageBytes, &address), "allocate");
  fill_with_zeros(device, address, kPageBytes);
  return address;
}

}  // namespace

KernelFault::KernelFault(c10::DeviceIndex device, Kind kind, std::string message)
    : device_(device), kind_(kind), message_(std::move(message)) {
  Words& words = words_of(device);
  std::lock_guard<std::mutex> lock(words.mutex);
  if (words.used == kWordsPerPage) {
    const uint64_t address = allocate_page(device);
    words.pages.push_back(new FaultPage);
    words.pages.back()->address = address;
    words.used = 0;
  }
  page_ = words.pages.back();
  offset_ = sizeof(int) * words.used++;
}

void release_fault_words(c10::DeviceIndex device) noexcept {
  {
    Expectations& all = expectations();
    std::lock_guard<std::mutex> lock(all.mutex);
    for (std::vector<Expected>* list : {&all.list, &all.captured}) {
      std::erase_if(*list, [&](const Expected& one) { return one.fault->device_ == device; });
    }
  }
  Words& words = words_of(device);
  std::lock_guard<std::mutex> lock(words.mutex);
  for (FaultPage* page : words.pages) {
    const uint64_t address = page->address.exchange(0);
    if (address != 0) defer_status(OB_ASK(deallocate, device, address), "deallocate");
  }
}

void renew_fault_words(c10::DeviceIndex device) {
  Words& words = words_of(device);
  std::lock_guard<std::mutex> lock(words.mutex);
  for (FaultPage* page : words.pages) page->address = allocate_page(device);
}

KernelFault& KernelFault::make(c10::DeviceIndex device, Kind kind, std::string message) {
  return *new KernelFault(device, kind, std::move(message));
}

bool KernelFault::take(StreamState& stream) const {
  if (shares_host_memory(device_)) {
    auto* word = reinterpret_cast<volatile int*>(address());
    return *word != 0 && std::exchange(*word, 0) != 0;
  }
  int word = 0;
  OB_CALL(copy_device_to_host, stream.queue, &word, address(), sizeof word);
  check_wait(wait_for_queue(driver(), stream.queue), "queue_synchronize");
  if (word == 0) return false;
  fill_with_zeros(device_, address(), sizeof word);
  return true;
}

void KernelFault::raise() const {
  const std::string text =
      launches_block() ? message_
                       : c10::str(message_, ", which ran on ", device_of(device_),
                                  " before this; with OUTBOARD_BLOCKING=1 in the environment the "
                                  "call itself raises");
  TORCH_CHECK_INDEX(kind_ != Kind::kIndexError, text);
  TORCH_CHECK(false, text);
}

void expect_faults(StreamState& stream, c10::ArrayRef<KernelFault*> faults) {
  if (faults.empty()) return;
  const bool captured = stream.capturing.load(std::memory_order_acquire);
  const uint64_t submitted = stream.submitted.load(std::memory_order_acquire);
  {
    Expectations& all = expectations();
    std::lock_guard<std::mutex> lock(all.mutex);
    std::vector<Expected>& list = captured ? all.captured : all.list;
    for (KernelFault* fault : faults) {
      const auto found = std::find_if(list.begin(), list.end(), [&](const Expected& one) {
        return one.fault == fault && one.stream == &stream;
      });
      if (found != list.end()) {
        found->submitted = submitted;
      } else {
        list.push_back({fault, &stream, submitted});
      }
    }
    if (captured) return;
    g_expects.store(true, std::memory_order_release);
  }
  if (launches_block()) {
    synchronize_stream(stream);
    raise_faults();
  }
}

std::vector<KernelFault*> take_captured_faults(StreamState& stream) {
  Expectations& all = expectations();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<KernelFault*> faults;
  for (const Expected& one : all.captured) {
    if (one.stream == &stream) faults.push_back(one.fault);
  }
  const auto of_stream = [&](const Expected& one) { return one.stream == &stream; };
  all.captured.erase(std::remove_if(all.captured.begin(), all.captured.end(), of_stream),
                     all.captured.end());
  return faults;
}

namespace {

void expect_again(const Expected& one) {
  Expectations& all = expectations();
  std::lock_guard<std::mutex> lock(all.mutex);
  const bool known = std::any_of(all.list.begin(), all.list.end(), [&](const Expected& other) {
    return other.fault == one.fault && other.stream == one.stream;
  });
  if (!known) all.list.push_back(one);
  g_expects.store(true, std::memory_order_release);
}

}  // namespace

void raise_faults() {
  if (C10_LIKELY(!g_expects.load(std::memory_order_acquire))) return;
  std::vector<Expected> done;
  {
    Expectations& all = expectations();
    std::lock_guard<std::mutex> lock(all.mutex);
    const auto is_done = [](const Expected& one) {
      return one.stream->completed.load(std::memory_order_acquire) >= one.submitted;
    };
    const auto rest = std::stable_partition(all.list.begin(), all.list.end(),
                                            [&](const Expected& one) { return !is_done(one); });
    done.assign(rest, all.list.end());
    all.list.erase(rest, all.list.end());
    g_expects.store(!all.list.empty(), std::memory_order_release);
  }
  const KernelFault* first = nullptr;
  std::exception_ptr failure;
  for (const Expected& one : done) {
    try {
      if (one.fault->take(*one.stream) && first == nullptr) first = one.fault;
    } catch (const std::exception&) {
      // The others are asked all the same. This one is asked again, when the driver may answer.
      if (failure == nullptr) failure = std::current_exception();
      expect_again(one);
    }
  }
  if (first != nullptr) first->raise();
  if (failure != nullptr) std::rethrow_exception(failure);
}

void raise_deferred() {
  if (std::exception_ptr failure = take_deferred_failure()) std::rethrow_exception(failure);
  raise_faults();
}

bool launches_block() noexcept {
  static const bool block = flag_setting(kBlocking);
  return block;
}

}  // namespace outboard
