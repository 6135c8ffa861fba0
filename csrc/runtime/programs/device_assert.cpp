#include "runtime/programs/device_assert.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/settings.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

constexpr int kFlagsPerPage = 1024;
constexpr uint64_t kPageBytes = kFlagsPerPage * sizeof(int);

struct Flags {
  std::mutex mutex;
  std::vector<AssertPage*> pages;
  int used = kFlagsPerPage;  // of the last page
};

Flags& flags_of(c10::DeviceIndex device) {
  return global<std::array<Flags, kMaxDevices>>()[device];
}

// An assert of a launched kernel, which is done when the stream has completed `submitted` calls.
struct Expected {
  DeviceAssert* assertion;
  StreamState* stream;
  uint64_t submitted;

  bool is_same(const Expected& other) const noexcept {
    return assertion == other.assertion && stream == other.stream;
  }
};

struct Expectations {
  std::vector<Expected> list;
  std::vector<Expected> captured;  // of kernels that replays launch

  static void add(std::vector<Expected>& entries, const Expected& added) {
    const auto found = std::find_if(entries.begin(), entries.end(),
                                    [&](const Expected& one) { return one.is_same(added); });
    if (found == entries.end()) {
      entries.push_back(added);
    } else {
      found->submitted = std::max(found->submitted, added.submitted);
    }
  }
};

std::atomic<bool> g_expects{false};

void fill_with_zeros(c10::DeviceIndex device, uint64_t address, uint64_t bytes) {
  if (shares_host_memory(device)) {
    std::memset(reinterpret_cast<void*>(address), 0, bytes);
    return;
  }
  const TemporaryQueue queue(device);
  const int zero = 0;
  ob_status status = OB_ASK(fill, queue.get(), address, &zero, sizeof zero, bytes);
  if (status == OB_OK) status = wait_for_queue(driver(), queue.get());
  check_wait(status, "fill");
}

uint64_t allocate_page(c10::DeviceIndex device) {
  uint64_t address = 0;
  check_status(allocate_memory(driver(), device, kPageBytes, &address), "allocate");
  fill_with_zeros(device, address, kPageBytes);
  return address;
}

}  // namespace

DeviceAssert::DeviceAssert(c10::DeviceIndex device, Kind kind, std::string message)
    : device_(device), kind_(kind), message_(std::move(message)) {
  Flags& flags = flags_of(device);
  std::lock_guard<std::mutex> lock(flags.mutex);
  if (flags.used == kFlagsPerPage) {
    const uint64_t address = allocate_page(device);
    flags.pages.push_back(new AssertPage);
    flags.pages.back()->address = address;
    flags.used = 0;
  }
  page_ = flags.pages.back();
  offset_ = sizeof(int) * flags.used++;
}

void release_assert_flags(c10::DeviceIndex device) noexcept {
  {
    const Locked<Expectations> all;
    for (std::vector<Expected>* list : {&all->list, &all->captured}) {
      std::erase_if(*list, [&](const Expected& one) { return one.assertion->device_ == device; });
    }
  }
  Flags& flags = flags_of(device);
  std::lock_guard<std::mutex> lock(flags.mutex);
  for (AssertPage* page : flags.pages) {
    const uint64_t address = page->address.exchange(0);
    if (address != 0) defer_status(OB_ASK(deallocate, device, address), "deallocate");
  }
}

void renew_assert_flags(c10::DeviceIndex device) {
  Flags& flags = flags_of(device);
  std::lock_guard<std::mutex> lock(flags.mutex);
  for (AssertPage* page : flags.pages) page->address = allocate_page(device);
}

DeviceAssert& DeviceAssert::interned(c10::DeviceIndex device, Kind kind, std::string_view message) {
  struct Interned {
    std::map<std::string, DeviceAssert*, std::less<>> by_message[kMaxDevices][2];
  };
  const Locked<Interned> all;
  auto& known = all->by_message[device][static_cast<size_t>(kind)];
  const auto found = known.find(message);
  if (found != known.end()) return *found->second;
  auto* made = new DeviceAssert(device, kind, std::string(message));
  known.emplace(message, made);
  return *made;
}

bool DeviceAssert::take(StreamState& stream) const {
  if (shares_host_memory(device_)) {
    auto* flag = reinterpret_cast<volatile int*>(address());
    return *flag != 0 && std::exchange(*flag, 0) != 0;
  }
  int flag = 0;
  OB_CALL(copy_device_to_host, stream.queue, &flag, address(), sizeof flag);
  check_wait(wait_for_queue(driver(), stream.queue), "queue_synchronize");
  if (flag == 0) return false;
  fill_with_zeros(device_, address(), sizeof flag);
  return true;
}

void DeviceAssert::raise() const {
  const std::string text =
      launches_block() ? message_
                       : c10::str(message_, ", which ran on ", device_of(device_),
                                  " before this; with OUTBOARD_BLOCKING=1 in the environment the "
                                  "call itself raises");
  TORCH_CHECK_INDEX(kind_ != Kind::kIndexError, text);
  TORCH_CHECK(false, text);
}

void expect_asserts(StreamState& stream, c10::ArrayRef<DeviceAssert*> asserts) {
  if (asserts.empty()) return;
  const bool captured = stream.capturing.load(std::memory_order_acquire);
  const uint64_t submitted = stream.submitted.load(std::memory_order_acquire);
  {
    const Locked<Expectations> all;
    for (DeviceAssert* assertion : asserts) {
      all->add(captured ? all->captured : all->list, {assertion, &stream, submitted});
    }
    if (captured) return;
    g_expects.store(true, std::memory_order_release);
  }
  if (launches_block()) {
    synchronize_stream(stream);
    raise_asserts();
  }
}

std::vector<DeviceAssert*> take_captured_asserts(StreamState& stream) {
  const Locked<Expectations> all;
  std::vector<DeviceAssert*> asserts;
  std::erase_if(all->captured, [&](const Expected& one) {
    if (one.stream != &stream) return false;
    asserts.push_back(one.assertion);
    return true;
  });
  return asserts;
}

void raise_asserts() {
  if (C10_LIKELY(!g_expects.load(std::memory_order_acquire))) return;
  std::vector<Expected> done;
  {
    const Locked<Expectations> all;
    std::erase_if(all->list, [&](const Expected& one) {
      if (one.stream->completed.load(std::memory_order_acquire) < one.submitted) return false;
      done.push_back(one);
      return true;
    });
    g_expects.store(!all->list.empty(), std::memory_order_release);
  }
  const DeviceAssert* first = nullptr;
  std::exception_ptr failure;
  for (const Expected& one : done) {
    try {
      if (one.assertion->take(*one.stream) && first == nullptr) first = one.assertion;
    } catch (const std::exception&) {
      // The other flags are read all the same. This one is read again once the driver can.
      if (failure == nullptr) failure = std::current_exception();
      const Locked<Expectations> all;
      all->add(all->list, one);
      g_expects.store(true, std::memory_order_release);
    }
  }
  if (first != nullptr) first->raise();
  if (failure != nullptr) std::rethrow_exception(failure);
}

bool launches_block() noexcept {
  static const bool block = flag_setting("OUTBOARD_BLOCKING");
  return block;
}

}  // namespace outboard
