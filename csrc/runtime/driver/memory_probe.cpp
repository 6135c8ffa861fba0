#include "runtime/driver/memory_probe.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/driver/driver_requests.h"
#include "runtime/memory/careful_memory.h"

namespace outboard {
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

// Two blocks and a queue of a device, while a probe needs them.
class Probe {
 public:
  Probe(const ob_driver& table, int32_t device) : table_(table), device_(device) {}

  ~Probe() {
    if (queue_ != nullptr) table_.queue_destroy(table_.context, queue_);
    for (const ob_address address : {source_, target_}) {
      if (address != 0) table_.deallocate(table_.context, device_, address);
    }
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  ProbeResult run() {
    result_.status = prepare();
    if (result_.status != OB_OK || !result_.problem.empty()) return result_;
    result_.status = copies();
    if (result_.status == OB_OK && result_.problem.empty() &&
        properties_.host_access == OB_HOST_ACCESS_COHERENT) {
      result_.status = host_access();
    }
    return result_;
  }

 private:
  ob_status prepare() {
    properties_.struct_size = sizeof(properties_);
    ob_status status = table_.device_properties(table_.context, device_, &properties_);
    if (status == OB_OK) status = allocate_memory(table_, device_, kBytes, &source_);
    if (status == OB_OK && source_ != 0)
      status = allocate_memory(table_, device_, kBytes, &target_);
    if (status != OB_OK) return status;
    if (source_ == 0 || target_ == 0) {
      result_.problem = "answered OK to `allocate` and gave no address";
    } else if (std::max(source_, target_) - std::min(source_, target_) < kBytes) {
      // What it gave twice is given back once.
      target_ = 0;
      result_.problem = "gave two allocations the same memory";
    }
    if (!result_.problem.empty()) return OB_OK;
    const int32_t priority =
        std::clamp(0, properties_.greatest_priority, properties_.least_priority);
    status = create_queue(table_, device_, priority, &queue_);
    if (status == OB_OK && queue_ == nullptr) {
      result_.problem = "answered OK to `queue_create` and gave no queue";
    }
    return status;
  }

  // `bytes` to one block, on to the other, and back.
  ob_status round_trip(const Bytes& bytes, Bytes& back) {
    ob_status status =
        table_.copy_host_to_device(table_.context, queue_, source_, bytes.data(), kBytes);
    if (status == OB_OK)
      status = table_.copy_device_to_device(table_.context, queue_, target_, source_, kBytes);
    if (status == OB_OK)
      status = table_.copy_device_to_host(table_.context, queue_, back.data(), target_, kBytes);
    const ob_status waited = table_.queue_synchronize(table_.context, queue_);
    return status != OB_OK ? status : waited;
  }

  ob_status copies() {
    for (const unsigned seed : {11u, 142u}) {
      const Bytes bytes = pattern(seed);
      Bytes back = {};
      const ob_status status = round_trip(bytes, back);
      if (status != OB_OK) return status;
      if (back != bytes) {
        result_.problem =
            "answered OK to copies to the device, on it and back to the host, and other bytes came "
            "back than were sent";
        return OB_OK;
      }
    }
    return OB_OK;
  }

  ob_status host_access() {
    static const char* const kUnreachable =
        "says that the host can touch the memory of the device (OB_HOST_ACCESS_COHERENT), and the "
        "system refuses that; the driver has to say OB_HOST_ACCESS_NONE";
    static const char* const kIncoherent =
        "says that host and device see each other's writes (OB_HOST_ACCESS_COHERENT), and they do "
        "not; the driver has to say OB_HOST_ACCESS_NONE";
    // The device wrote this last; then the host writes, and the device copies that.
    Bytes seen = {};
    const CarefulCopy read = copy_carefully(seen.data(), host_pointer(target_), kBytes);
    if (read == CarefulCopy::kUnknown) return OB_OK;
    const Bytes written = pattern(77);
    const CarefulCopy write = copy_carefully(host_pointer(source_), written.data(), kBytes);
    if (read == CarefulCopy::kFault || write == CarefulCopy::kFault) {
      result_.problem = kUnreachable;
      return OB_OK;
    }
    Bytes back = {};
    ob_status status =
        table_.copy_device_to_device(table_.context, queue_, target_, source_, kBytes);
    if (status == OB_OK)
      status = table_.copy_device_to_host(table_.context, queue_, back.data(), target_, kBytes);
    const ob_status waited = table_.queue_synchronize(table_.context, queue_);
    if (status == OB_OK) status = waited;
    if (status == OB_OK && (seen != pattern(142) || back != written)) result_.problem = kIncoherent;
    if (status != OB_OK || !result_.problem.empty() ||
        (properties_.features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY) == 0) {
      return status;
    }
    return adopted_memory();
  }

  ob_status adopted_memory() {
    const Bytes host = pattern(200);
    Bytes back = {};
    const auto address = reinterpret_cast<ob_address>(host.data());
    ob_status status =
        table_.copy_device_to_device(table_.context, queue_, target_, address, kBytes);
    const bool refused = status == OB_INVALID_ARGUMENT || status == OB_UNSUPPORTED;
    if (status == OB_OK)
      status = table_.copy_device_to_host(table_.context, queue_, back.data(), target_, kBytes);
    const ob_status waited = table_.queue_synchronize(table_.context, queue_);
    if (status == OB_OK) status = waited;
    if (refused || (status == OB_OK && back != host)) {
      result_.problem =
          "says that any memory of the host is memory of the device "
          "(OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY), and cannot copy from it; the driver has to "
          "leave that feature out";
      return OB_OK;
    }
    return status;
  }

  const ob_driver& table_;
  const int32_t device_;
  ob_device_properties properties_ = {};
  ob_address source_ = 0;
  ob_address target_ = 0;
  ob_queue queue_ = nullptr;
  ProbeResult result_;
};

}  // namespace

ProbeResult probe_memory(const ob_driver& table, int32_t device) {
  return Probe(table, device).run();
}

}  // namespace outboard
