// Validation: a table around any driver's table that compares its answers with driver.h.
//
// A wrong answer becomes OB_ERROR with a message that names it:
//
// * OK without the object that was to be created, or without an open descriptor;
// * memory that overlaps other memory, is not aligned, or that the host cannot touch where
//   `host_access` or pinned memory promise it;
// * times, sizes of free memory and events on another clock that cannot be;
// * before the first allocation on a device: copies that move nothing, and memory that contradicts
//   `host_access` and `features` (Probe).
//
// Functions that the wrapped driver lacks stay NULL.
#include <common/layer.h>
#include <common/system.h>
#include <fcntl.h>
#include <outboard/driver.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <utility>

namespace outboard {
namespace {

using layers::g_driver;
using layers::kMaxDevices;

// When the driver was wrapped, in nanoseconds of CLOCK_MONOTONIC: its events happen later.
uint64_t g_start = 0;

template <class... Values>
ob_status refuse(const char* format, Values... values) {
  return layers::refuse(OB_ERROR, format, values...);
}

// Functions without checks are the driver's own: the message after this one is the driver's again.
const char* last_error(void* context) {
  const char* message = layers::last_error(context);
  layers::t_message_is_ours = false;
  return message;
}

unsigned long long printable(uint64_t number) { return number; }

// The status of a function that creates an object, a handle or an address, and stores it through
// the last argument.
template <class Inner, class... Arguments>
ob_status created(const char* function, Inner inner, Arguments... arguments) {
  auto* const handle = std::get<sizeof...(arguments) - 1>(std::tuple(arguments...));
  *handle = {};
  const ob_status status = inner();
  if (status != OB_OK || *handle != std::remove_pointer_t<decltype(handle)>{}) return status;
  return refuse("it returned OK and stored nothing; `%s` must store what it created", function);
}

// ---- Probes: do copies move data, and can the host access the memory that the driver says it can?

// The most bytes of one copy_carefully.
constexpr size_t kCarefulBytes = 4096;

enum class CarefulCopy {
  kDone,
  kFault,    // the host cannot access one of the bytes
  kUnknown,  // no pipe could be opened
};

// Copies memory that may not be mapped: the system copies the bytes through a pipe, and returns an
// error where a load or store would end the process.
CarefulCopy copy_carefully(void* destination, const void* source, size_t bytes) noexcept {
  int ends[2];
  // A pipe takes that many bytes (PIPE_BUF) at once, so neither call waits for the other.
  if (bytes > kCarefulBytes || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    return CarefulCopy::kUnknown;
  }
  const ssize_t wanted = static_cast<ssize_t>(bytes);
  ssize_t copied = write(ends[1], source, bytes);
  if (copied == wanted) copied = read(ends[0], destination, bytes);
  // A copy that stops half-way has met the end of mapped memory.
  const bool fault = copied < 0 ? errno == EFAULT : copied < wanted;
  close(ends[0]);
  close(ends[1]);
  if (copied == wanted) return CarefulCopy::kDone;
  return fault ? CarefulCopy::kFault : CarefulCopy::kUnknown;
}

constexpr uint64_t kBytes = 256;
using Bytes = std::array<unsigned char, kBytes>;

Bytes pattern(unsigned seed) {
  Bytes bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(i * 37 + seed);
  }
  return bytes;
}

void* host_pointer(ob_address address) { return reinterpret_cast<void*>(address); }

// Two blocks and a queue of a device, freed at its end. Its steps return the status of the driver,
// and leave a sentence in `problem` where all went well and the outcome is wrong.
class Probe {
 public:
  Probe(int32_t device, const ob_device_properties& properties)
      : device_(device), properties_(properties) {}

  ~Probe() {
    if (queue_ != nullptr) g_driver.queue_destroy(g_driver.context, queue_);
    for (const ob_address address : {source_, target_}) {
      if (address != 0) g_driver.deallocate(g_driver.context, device_, address);
    }
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // Not OB_OK: a call failed, `last_error` of the driver has the reason, and nothing is known.
  ob_status run() {
    const bool coherent = properties_.host_access == OB_HOST_ACCESS_COHERENT;
    const bool adopts = coherent && properties_.features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY;
    ob_status status = prepare();
    if (go_on(status)) status = copies();
    if (go_on(status) && coherent) status = host_access();
    if (go_on(status) && adopts) status = adopted_memory();
    return status;
  }
  // The fault of the memory, as a sentence without its subject; "" for none.
  const char* problem() const { return problem_; }

 private:
  bool go_on(ob_status status) const { return status == OB_OK && problem_[0] == '\0'; }

  ob_status prepare() {
    const ob_allocation block = {
        .struct_size = sizeof(block), .device = device_, .bytes = kBytes, .flags = 0};
    const ob_queue_description queue = {
        .struct_size = sizeof(queue),
        .device = device_,
        .priority =
            std::min(std::max(0, properties_.greatest_priority), properties_.least_priority)};
    const ob_status status = g_driver.allocate(g_driver.context, &block, &source_)
                                 ?: g_driver.allocate(g_driver.context, &block, &target_);
    if (status != OB_OK) return status;
    if (source_ == 0 || target_ == 0) {
      problem_ = "returned OK from `allocate` and gave no address";
    } else if (std::max(source_, target_) - std::min(source_, target_) < kBytes) {
      target_ = 0;  // freed once
      problem_ = "gave two allocations the same memory";
    } else if (const ob_status failed = g_driver.queue_create(g_driver.context, &queue, &queue_)) {
      return failed;
    } else if (queue_ == nullptr) {
      problem_ = "returned OK from `queue_create` and gave no queue";
    }
    return OB_OK;
  }

  // From `source` over the second block to `back`, and waits.
  ob_status read_back(ob_address source, Bytes& back) {
    const ob_status status =
        g_driver.copy_device_to_device(g_driver.context, queue_, target_, source, kBytes)
            ?: g_driver.copy_device_to_host(g_driver.context, queue_, back.data(), target_, kBytes);
    const ob_status waited = g_driver.queue_synchronize(g_driver.context, queue_);
    return status ?: waited;
  }

  ob_status copies() {
    for (const unsigned seed : {11u, 142u}) {
      const Bytes bytes = pattern(seed);
      Bytes back = {};
      const ob_status sent =
          g_driver.copy_host_to_device(g_driver.context, queue_, source_, bytes.data(), kBytes);
      const ob_status status = sent ?: read_back(source_, back);
      if (status != OB_OK) return status;
      if (back != bytes) {
        problem_ =
            "returned OK from copies to the device, on it and back to the host, and other bytes "
            "came "
            "back than were sent";
        return OB_OK;
      }
    }
    return OB_OK;
  }

  // The device wrote the second block last; then the host writes, and the device copies that.
  ob_status host_access() {
    Bytes seen = {};
    const CarefulCopy read = copy_carefully(seen.data(), host_pointer(target_), kBytes);
    if (read == CarefulCopy::kUnknown) return OB_OK;
    const Bytes written = pattern(77);
    const CarefulCopy write = copy_carefully(host_pointer(source_), written.data(), kBytes);
    if (read == CarefulCopy::kFault || write == CarefulCopy::kFault) {
      problem_ =
          "says that the host can touch the memory of the device (OB_HOST_ACCESS_COHERENT), and "
          "the system refuses that; the driver has to say OB_HOST_ACCESS_NONE";
      return OB_OK;
    }
    Bytes back = {};
    const ob_status status = read_back(source_, back);
    if (status == OB_OK && (seen != pattern(142) || back != written)) {
      problem_ =
          "says that host and device see each other's writes (OB_HOST_ACCESS_COHERENT), and they "
          "do not; the driver has to say OB_HOST_ACCESS_NONE";
    }
    return status;
  }

  ob_status adopted_memory() {
    const Bytes host = pattern(200);
    Bytes back = {};
    const ob_status status = read_back(reinterpret_cast<ob_address>(host.data()), back);
    const bool refused = status == OB_INVALID_ARGUMENT || status == OB_UNSUPPORTED;
    if (!refused && (status != OB_OK || back == host)) return status;
    problem_ =
        "says that any memory of the host is memory of the device "
        "(OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY), and cannot copy from it; the driver has to "
        "leave that feature out";
    return OB_OK;
  }

  const int32_t device_;
  const ob_device_properties& properties_;
  ob_address source_ = 0;
  ob_address target_ = 0;
  ob_queue queue_ = nullptr;
  const char* problem_ = "";
};

// ---- Memory ----

// Leaked: memory is freed while the process exits.
struct Memory {
  std::mutex mutex;
  std::map<ob_address, uint64_t> live;  // bytes by address
};

Memory& memory() {
  static Memory* instance = new Memory;
  return *instance;
}

// Records memory unless it overlaps other memory.
ob_status add_memory(ob_address address, uint64_t bytes) {
  Memory& all = memory();
  std::lock_guard<std::mutex> lock(all.mutex);
  const auto next = all.live.lower_bound(address);
  bool free = next == all.live.end() || next->first - address >= bytes;
  if (next != all.live.begin()) {
    const auto& [start, length] = *std::prev(next);
    free = free && address - start >= length;
  }
  // Not freed: that would take it from its first owner.
  if (!free) return refuse("it gave memory that is in use already, at 0x%llx", printable(address));
  all.live.emplace(address, bytes);
  return OB_OK;
}

void forget_memory(ob_address address) {
  std::lock_guard<std::mutex> lock(memory().mutex);
  memory().live.erase(address);
}

struct Device {
  std::mutex mutex;
  std::atomic<bool> probed{false};  // the rest is constant from then on
  bool coherent = false;
  uint32_t alignment = 1;
  const char* problem = "";
};

// Probes the memory of a device once. A failed call, for lack of memory for example, leaves it
// unknown: the next allocation tries again.
const Device& probed_device(int32_t index) {
  static auto* all = new std::array<Device, kMaxDevices>;
  Device& device = (*all)[index];
  if (device.probed.load(std::memory_order_acquire)) return device;
  std::lock_guard<std::mutex> lock(device.mutex);
  if (device.probed.load(std::memory_order_relaxed)) return device;
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  if (g_driver.device_properties(g_driver.context, index, &properties) != OB_OK) return device;
  Probe probe(index, properties);
  if (probe.run() != OB_OK) return device;
  device.coherent = properties.host_access == OB_HOST_ACCESS_COHERENT;
  device.alignment = std::max(properties.alignment, 1u);
  device.problem = probe.problem();
  device.probed.store(true, std::memory_order_release);
  return device;
}

bool host_reaches(ob_address address, uint64_t bytes) {
  char byte;
  for (const ob_address end : {address, address + bytes - 1}) {
    const auto* pointer = reinterpret_cast<const void*>(end);
    if (copy_carefully(&byte, pointer, 1) == CarefulCopy::kFault) return false;
  }
  return true;
}

constexpr auto checked_allocate = [](auto inner, const ob_allocation* wanted,
                                     ob_address* address) -> ob_status {
  const int32_t index = wanted->device;
  const uint64_t bytes = wanted->bytes;
  if (index < 0 || index >= kMaxDevices) return inner();
  const Device& device = probed_device(index);
  const bool probed = device.probed.load(std::memory_order_acquire);
  if (probed && device.problem[0] != '\0') return refuse("it %s", device.problem);
  const ob_status status = created("allocate", inner, address);
  if (status != OB_OK) return status;
  const ob_address given = *address;
  const char* problem = nullptr;
  if (probed && given % device.alignment != 0) {
    problem = "it gave memory that is not aligned as `device_properties` says";
  } else if (given + bytes < given) {
    problem = "it gave memory that reaches past the last address";
  } else if (probed && device.coherent && !host_reaches(given, bytes)) {
    problem =
        "it gave memory that the host cannot touch, but the device reports OB_HOST_ACCESS_COHERENT";
  }
  if (problem == nullptr) return add_memory(given, bytes);
  g_driver.deallocate(g_driver.context, index, given);
  return refuse("%s (%llu bytes at 0x%llx)", problem, printable(bytes), printable(given));
};

constexpr auto checked_memory_import = [](auto inner, int32_t, const ob_memory_handle* handle,
                                          ob_address* address) -> ob_status {
  const ob_status status = created("memory_import", inner, address);
  return status != OB_OK ? status : add_memory(*address, handle->bytes);
};

constexpr auto checked_address_reserve = [](auto inner, int32_t, uint64_t bytes,
                                            ob_address* address) -> ob_status {
  const ob_status status = created("address_reserve", inner, address);
  if (status != OB_OK) return status;
  if (*address + bytes >= *address) return add_memory(*address, bytes);
  return refuse("it gave addresses that reach past the last one, at 0x%llx", printable(*address));
};

// Forgotten first: the driver may give the same addresses to another thread at once.
constexpr auto checked_release = [](auto inner, int32_t, ob_address address, auto...) -> ob_status {
  forget_memory(address);
  return inner();
};

constexpr auto checked_memory_export = [](auto inner, int32_t, ob_address,
                                          ob_memory_handle* handle) -> ob_status {
  handle->descriptor = -1;
  const ob_status status = inner();
  if (status != OB_OK || fcntl(handle->descriptor, F_GETFD) != -1) return status;
  return refuse("it returned OK and gave no open descriptor, but %d", handle->descriptor);
};

constexpr auto checked_memory_map = [](auto inner, int32_t device, ob_address address,
                                       uint64_t bytes) -> ob_status {
  const ob_status status = inner();
  if (status != OB_OK) return status;
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  const bool known = g_driver.device_properties(g_driver.context, device, &properties) == OB_OK;
  if (!known || properties.host_access != OB_HOST_ACCESS_COHERENT || host_reaches(address, bytes)) {
    return OB_OK;
  }
  g_driver.memory_unmap(g_driver.context, device, address, bytes);
  return refuse(
      "it mapped memory that the host cannot touch, but the device reports "
      "OB_HOST_ACCESS_COHERENT; "
      "%llu bytes at 0x%llx",
      printable(bytes), printable(address));
};

constexpr auto checked_memory_info = [](auto inner, int32_t, uint64_t* free_bytes,
                                        uint64_t* total_bytes) -> ob_status {
  const ob_status status = inner();
  if (status != OB_OK) return status;
  if (*total_bytes != 0 && *free_bytes <= *total_bytes) return OB_OK;
  return refuse("it says that %llu of %llu bytes are free, which cannot be",
                printable(std::exchange(*free_bytes, 0)),
                printable(std::exchange(*total_bytes, 0)));
};

constexpr auto checked_host_allocate = [](auto inner, const ob_host_allocation* wanted,
                                          void** pointer) -> ob_status {
  const ob_status status = created("host_allocate", inner, pointer);
  if (status != OB_OK || host_reaches(reinterpret_cast<ob_address>(*pointer), wanted->bytes)) {
    return status;
  }
  g_driver.host_deallocate(g_driver.context, *pointer);
  return refuse("it gave memory that the host cannot touch");
};

// ---- Times ----

constexpr auto checked_event_elapsed = [](auto inner, ob_event, ob_event,
                                          double* milliseconds) -> ob_status {
  const ob_status status = inner();
  if (status != OB_OK || std::isfinite(*milliseconds)) return status;
  return refuse("it returned OK and a time of %f ms", *milliseconds);
};

constexpr auto checked_event_time = [](auto inner, ob_event, uint64_t* time) -> ob_status {
  // A clock of the device that is compared with the host's may be off by a little.
  constexpr uint64_t kTolerance = 1'000'000'000;
  const ob_status status = inner();
  if (status != OB_OK) return status;
  const uint64_t now = nanoseconds();
  if (*time + kTolerance >= g_start && *time <= now + kTolerance) return OB_OK;
  return refuse(
      "it returned OK and a time of %llu ns, and it is %llu ns on the host's CLOCK_MONOTONIC",
      printable(*time), printable(now));
};

// ---- The table ----

bool readable(const void* table, size_t bytes) {
  std::array<char, kCarefulBytes> copy;
  return bytes <= copy.size() && copy_carefully(copy.data(), table, bytes) != CarefulCopy::kFault;
}

const ob_driver* wrap(const ob_driver* driver, const char** problem) {
  constexpr size_t kHeaderBytes = offsetof(ob_driver, struct_size) + sizeof(driver->struct_size);
  *problem = "the driver's table does not lie in memory that can be read";
  if (!readable(driver, kHeaderBytes)) return nullptr;
  const size_t bytes = std::min(driver->struct_size, sizeof(g_driver));
  if (!readable(driver, bytes)) return nullptr;
  // The kit refuses these by their header.
  if (driver->major != OB_VERSION_MAJOR || bytes < kHeaderBytes || bytes % sizeof(void*) != 0) {
    return driver;
  }
  g_start = nanoseconds();
  static ob_driver table;
  table = layers::copy_table(*driver);
  if (table.last_error != nullptr) table.last_error = &last_error;
#define OUTBOARD_CHECKED(field) OB_WRAP(table, field, checked_##field)
#define OUTBOARD_CREATES(field) \
  OB_WRAP(table, field,         \
          [](auto inner, auto... arguments) { return created(#field, inner, arguments...); })
  OUTBOARD_CHECKED(allocate)
  OUTBOARD_CHECKED(memory_info)
  OUTBOARD_CHECKED(host_allocate)
  OUTBOARD_CHECKED(event_elapsed)
  OUTBOARD_CHECKED(event_time)
  OUTBOARD_CHECKED(memory_export)
  OUTBOARD_CHECKED(memory_import)
  OUTBOARD_CHECKED(address_reserve)
  OUTBOARD_CHECKED(memory_map)
  OUTBOARD_CREATES(queue_create)
  OUTBOARD_CREATES(event_create)
  OUTBOARD_CREATES(program_build)
  OUTBOARD_CREATES(program_load)
  OUTBOARD_CREATES(kernel_create)
  OUTBOARD_CREATES(graph_end)
  OUTBOARD_CREATES(communicator_create)
  OB_WRAP(table, deallocate, checked_release)
  OB_WRAP(table, memory_close, checked_release)
  OB_WRAP(table, address_release, checked_release)
#undef OUTBOARD_CREATES
#undef OUTBOARD_CHECKED
  return &table;
}

}  // namespace
}  // namespace outboard

extern "C" __attribute__((visibility("default"))) const ob_driver* ob_wrap_driver(
    const ob_driver* driver, const char** problem) {
  return outboard::wrap(driver, problem);
}
