#include "validation/memory_probe.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace outboard {

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

namespace {

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

// Two blocks and a queue of a device. Its steps return the status of the driver, and leave a
// sentence in `problem` where all went well and the outcome is wrong.
class Probe {
 public:
  Probe(const ob_driver& table, int32_t device, const ob_device_properties& properties)
      : table_(table), device_(device), properties_(properties) {}

  ~Probe() {
    if (queue_ != nullptr) table_.queue_destroy(table_.context, queue_);
    for (const ob_address address : {source_, target_}) {
      if (address != 0) table_.deallocate(table_.context, device_, address);
    }
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  ProbeResult run() {
    const bool coherent = properties_.host_access == OB_HOST_ACCESS_COHERENT;
    const bool adopts = coherent && properties_.features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY;
    ob_status status = prepare();
    if (go_on(status)) status = copies();
    if (go_on(status) && coherent) status = host_access();
    if (go_on(status) && adopts) status = adopted_memory();
    return {status, problem_};
  }

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
    const ob_status status = table_.allocate(table_.context, &block, &source_)
                                 ?: table_.allocate(table_.context, &block, &target_);
    if (status != OB_OK) return status;
    if (source_ == 0 || target_ == 0) {
      problem_ = "answered OK to `allocate` and gave no address";
    } else if (std::max(source_, target_) - std::min(source_, target_) < kBytes) {
      target_ = 0;  // freed once
      problem_ = "gave two allocations the same memory";
    } else if (const ob_status failed = table_.queue_create(table_.context, &queue, &queue_)) {
      return failed;
    } else if (queue_ == nullptr) {
      problem_ = "answered OK to `queue_create` and gave no queue";
    }
    return OB_OK;
  }

  // From `source` over the second block to `back`, and waits.
  ob_status read_back(ob_address source, Bytes& back) {
    const ob_status status =
        table_.copy_device_to_device(table_.context, queue_, target_, source, kBytes)
            ?: table_.copy_device_to_host(table_.context, queue_, back.data(), target_, kBytes);
    const ob_status waited = table_.queue_synchronize(table_.context, queue_);
    return status ?: waited;
  }

  ob_status copies() {
    for (const unsigned seed : {11u, 142u}) {
      const Bytes bytes = pattern(seed);
      Bytes back = {};
      const ob_status sent =
          table_.copy_host_to_device(table_.context, queue_, source_, bytes.data(), kBytes);
      const ob_status status = sent ?: read_back(source_, back);
      if (status != OB_OK) return status;
      if (back != bytes) {
        problem_ =
            "answered OK to copies to the device, on it and back to the host, and other bytes came "
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

  const ob_driver& table_;
  const int32_t device_;
  const ob_device_properties& properties_;
  ob_address source_ = 0;
  ob_address target_ = 0;
  ob_queue queue_ = nullptr;
  const char* problem_ = "";
};

}  // namespace

ProbeResult probe_memory(const ob_driver& table, int32_t device,
                         const ob_device_properties& properties) {
  return Probe(table, device, properties).run();
}

}  // namespace outboard
