// Objects of the wrapped driver that are alive, and checks that callers use only those.
#include <common/system.h>

#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <mutex>

#include "faults.h"

namespace faults {
namespace {

constexpr const char* kKindNames[OBJECT_KIND_COUNT] = {
    "allocations", "pinned",     "queues",  "events",    "programs",     "kernels",
    "graphs",      "registered", "imports", "addresses", "communicators"};

// Never destroyed: objects are released while the process exits. Sorted by key, so that an address
// finds its allocation.
std::mutex& g_mutex = *new std::mutex;
auto& g_alive = *new std::array<std::map<uint64_t, Object>, OBJECT_KIND_COUNT>;
bool g_adopts_host_memory[kMaxDevices];
std::atomic<uint64_t> g_misuses;

template <class... Values>
ob_status misuse(const char* format, Values... values) {
  g_misuses++;
  return refuse(OB_INVALID_ARGUMENT, format, values...);
}

// The device of a live object.
ob_status find_live(ObjectKind kind, uint64_t key, int32_t& device) {
  {
    std::lock_guard lock(g_mutex);
    const auto found = g_alive[kind].find(key);
    if (found != g_alive[kind].end()) {
      device = found->second.device;
      return OB_OK;
    }
  }
  return not_alive(kind, key);
}

struct Owner : Object {
  uint64_t key = 0;
};

// The object of the first of these kinds that holds the byte at `address`; 0 bytes if there is
// none.
Owner find_around(std::initializer_list<ObjectKind> kinds, uint64_t address) {
  std::lock_guard lock(g_mutex);
  for (const ObjectKind kind : kinds) {
    const auto after = g_alive[kind].upper_bound(address);
    if (after == g_alive[kind].begin()) continue;
    const auto& [key, object] = *std::prev(after);
    if (address - key < object.bytes) return {object, key};
  }
  return {};
}

Owner find_memory(ob_address address) {
  return find_around({ALLOCATION, IMPORT, ADDRESSES}, address);
}

// An operand, or NULL for none.
ob_status check_tensor(ob_queue queue, const ob_tensor* tensor) {
  if (tensor == nullptr) return OB_OK;
  if (tensor->dimensions > 8) {
    return misuse("A tensor has %" PRIu32 " dimensions.", tensor->dimensions);
  }
  uint64_t elements = 1;
  for (uint32_t d = 0; d < tensor->dimensions; ++d) {
    if (tensor->sizes[d] < 1 || tensor->strides[d] < 0) {
      return misuse("A tensor has size %" PRId64 " and stride %" PRId64 " in dimension %" PRIu32
                    ".",
                    tensor->sizes[d], tensor->strides[d], d);
    }
    elements += static_cast<uint64_t>(tensor->sizes[d] - 1) * tensor->strides[d];
  }
  return check_range(queue, tensor->data, elements * dtype_bytes(tensor->dtype));
}

// A query puts no work on the queue.
template <class Description>
ob_status check_workspace(ob_queue queue, const Description* description) {
  const uint64_t bytes = description->workspace_bytes;
  return (bytes == 0 ? OB_OK : check_range(queue, description->workspace, bytes))
             ?: (description->workspace_query != nullptr ? OB_OK : delay(queue));
}

}  // namespace

// ---- Live objects

void add_object(ObjectKind kind, uint64_t key, const Object& added) {
  std::lock_guard lock(g_mutex);
  g_alive[kind][key] = added;
}

bool remove_object(ObjectKind kind, uint64_t key, Object& removed) {
  std::lock_guard lock(g_mutex);
  const auto found = g_alive[kind].find(key);
  if (found == g_alive[kind].end()) return false;
  removed = found->second;
  g_alive[kind].erase(found);
  return true;
}

std::vector<uint64_t> live_objects_of(ObjectKind kind, int32_t device) {
  std::lock_guard lock(g_mutex);
  std::vector<uint64_t> keys;
  for (const auto& [key, object] : g_alive[kind]) {
    if (object.device == device) keys.push_back(key);
  }
  return keys;
}

uint64_t live_bytes(int32_t device) {
  std::lock_guard lock(g_mutex);
  uint64_t bytes = 0;
  for (const auto& [key, object] : g_alive[ALLOCATION]) {
    if (object.device == device) bytes += object.bytes;
  }
  return bytes;
}

std::string describe_objects() {
  std::lock_guard lock(g_mutex);
  std::string text = "misuses " + std::to_string(g_misuses) + "\n";
  for (int kind = 0; kind < OBJECT_KIND_COUNT; ++kind) {
    text += drivers::format("live %s %zu\n", kKindNames[kind], g_alive[kind].size());
    for (const auto& [key, object] : g_alive[kind]) {
      text += drivers::format("leak %s 0x%" PRIx64 " device %" PRId32 " %" PRIu64 " bytes\n",
                              kKindNames[kind], key, object.device, object.bytes);
    }
  }
  return text;
}

void set_adopts_host_memory(int32_t device, bool adopts) {
  if (is_device(device)) g_adopts_host_memory[device] = adopts;
}

// ---- Checks

ob_status not_alive(ObjectKind kind, uint64_t key) {
  return misuse("0x%" PRIx64 " is not among the live %s: it was destroyed or never created.", key,
                kKindNames[kind]);
}

ob_status check_live(ObjectKind kind, uint64_t key) {
  int32_t device;
  return find_live(kind, key, device);
}

ob_status check_queue(ob_queue queue) {
  int32_t device = -1;
  return find_live(QUEUE, key_of(queue), device) ?: use_device(device);
}

ob_status check_event(ob_event event) {
  int32_t device = -1;
  return find_live(EVENT, key_of(event), device) ?: check_lost(device);
}

ob_status check_unregistered(const void* pointer, uint64_t bytes) {
  const uint64_t first = key_of(pointer);
  for (const uint64_t address : {first, first + (bytes == 0 ? 0 : bytes - 1)}) {
    if (find_around({REGISTERED}, address).bytes == 0) continue;
    return misuse("%" PRIu64 " bytes at %p are registered already.", bytes, pointer);
  }
  return OB_OK;
}

ob_status check_start_on(int32_t device, ob_address address) {
  const Owner owner = find_memory(address);
  if (owner.bytes != 0 && owner.key == address && owner.device == device) return OB_OK;
  return misuse("0x%" PRIx64 " is not the start of memory of device %" PRId32 ".", address, device);
}

ob_status check_reserved(int32_t device, ob_address address, uint64_t bytes) {
  const Owner owner = find_around({ADDRESSES}, address);
  const uint64_t offset = address - owner.key;
  if (bytes != 0 && offset < owner.bytes && bytes <= owner.bytes - offset &&
      owner.device == device) {
    return OB_OK;
  }
  return misuse("%" PRIu64 " bytes at 0x%" PRIx64 " are no reserved addresses of device %" PRId32
                ".",
                bytes, address, device);
}

ob_status check_given_back(int32_t device) {
  for (const ObjectKind kind : {ALLOCATION, IMPORT, ADDRESSES, PROGRAM}) {
    const std::vector<uint64_t> keys = live_objects_of(kind, device);
    if (keys.empty()) continue;
    return misuse("Device %" PRId32 " cannot be reset: 0x%" PRIx64 " is among its live %s.", device,
                  keys[0], kKindNames[kind]);
  }
  return OB_OK;
}

ob_status check_range_on(int32_t device, ob_address address, uint64_t bytes) {
  const Owner owner = find_memory(address);
  const uint64_t offset = address - owner.key;
  if (offset < owner.bytes) {
    if (owner.device == device && bytes <= owner.bytes - offset) return OB_OK;
  } else if (address != 0 && is_device(device) && g_adopts_host_memory[device]) {
    return OB_OK;
  }
  return misuse("%" PRIu64 " bytes at 0x%" PRIx64
                " do not lie in a live allocation of device %" PRId32 ".",
                bytes, address, device);
}

ob_status check_range(ob_queue queue, ob_address address, uint64_t bytes) {
  int32_t device = -1;
  return find_live(QUEUE, key_of(queue), device) ?: check_range_on(device, address, bytes);
}

ob_status check_rows(ob_queue queue, ob_address address, uint64_t pitch, uint64_t row_bytes,
                     uint64_t rows) {
  if (rows == 0) return misuse("A copy of 0 rows.");
  uint64_t before, bytes;
  if (__builtin_mul_overflow(rows - 1, pitch, &before) ||
      __builtin_add_overflow(before, row_bytes, &bytes)) {
    return misuse("%" PRIu64 " rows with a pitch of %" PRIu64 " bytes are no range of memory.",
                  rows, pitch);
  }
  return check_range(queue, address, bytes);
}

ob_status check_launch(ob_queue queue, const ob_launch* launch) {
  ob_status status = check_live(KERNEL, key_of(launch->kernel));
  for (uint32_t i = 0; i < launch->argument_count && status == OB_OK; ++i) {
    const ob_argument* argument = ob_argument_of(launch, i);
    if (argument->kind == OB_ARGUMENT_ADDRESS) status = check_range(queue, argument->address, 1);
  }
  for (const ob_event event : {OB_COVERS(launch, start) ? launch->start : nullptr,
                               OB_COVERS(launch, end) ? launch->end : nullptr}) {
    if (event != nullptr && status == OB_OK) status = check_event(event);
  }
  return status;
}

ob_status check_matrix_product(ob_queue queue, const ob_matrix_product* description) {
  return check_tensor(queue, description->a) ?: check_tensor(queue, description->b)
      ?: check_tensor(queue, description->out) ?: check_tensor(queue, description->added)
      ?: check_tensor(queue, description->bias) ?: check_workspace(queue, description);
}

ob_status check_convolution(ob_queue queue, const ob_convolution* description) {
  return check_tensor(queue, description->input) ?: check_tensor(queue, description->weight)
      ?: check_tensor(queue, description->output) ?: check_tensor(queue, description->bias)
      ?: check_workspace(queue, description);
}

}  // namespace faults
