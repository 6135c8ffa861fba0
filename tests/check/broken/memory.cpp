// Faults of table, devices and memory.
#include "broken.h"

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace broken;

namespace {

// Cuts allocations from one of the device: like it, but with the faults that the base refuses.
struct Arena {
  ob_address start = 0, next = 0, end = 0;
  std::multimap<uint64_t, ob_address> freed;
  std::map<ob_address, uint64_t> live;
};
std::mutex arena_lock;
Arena arenas[2];

void open(Arena& arena, int32_t device) {
  if (arena.start != 0) return;
  ob_allocation wanted = {sizeof wanted, device, 512u << 20, 0};
  if (BASE(allocate, &wanted, &arena.start) != OB_OK) return;
  arena.next = arena.start;
  arena.end = arena.start + wanted.bytes;
}

// `stride`: how far the next allocation begins behind this one.
ob_status take(Arena& arena, const ob_allocation* wanted, uint64_t stride, ob_address* address) {
  open(arena, wanted->device);
  const auto again = arena.freed.find(wanted->bytes);
  if (again != arena.freed.end()) {
    *address = again->second;
    arena.freed.erase(again);
  } else {
    if (wanted->bytes > arena.end - arena.next) return fail(OB_OUT_OF_MEMORY, "No room.");
    *address = arena.next;
    arena.next += (stride + 63) / 64 * 64;
  }
  arena.live[*address] = wanted->bytes;
  return OB_OK;
}

ob_status give_back(void*, int32_t device, ob_address address) {
  std::lock_guard lock(arena_lock);
  Arena& arena = arenas[device];
  arena.freed.emplace(arena.live[address], address);
  arena.live.erase(address);
  return OB_OK;
}

bool is_wrong(const ob_allocation* wanted) {
  return wanted->bytes == 0 || wanted->bytes > (256u << 20) || wanted->device < 0 ||
         wanted->device > 1;
}

std::atomic<uint64_t> calls{0};

}  // namespace

// ---- Table

FAULT("half_a_group") { table.host_deallocate = nullptr; }
FAULT("last_error_is_null") {
  static std::string first;
  first = base.last_error(base.context);
  table.last_error = [](void*) -> const char* {
    const char* words = base.last_error(base.context);
    return first == words ? nullptr : words;
  };
}
FAULT("no_message") {
  table.last_error = [](void*) { return ""; };
}

// ---- Devices

FAULT("fills_the_whole_struct") {
  table.device_properties = [](void*, int32_t device, ob_device_properties* properties) {
    ob_device_properties ours = {};
    ours.struct_size = sizeof ours;
    const ob_status status = BASE(device_properties, device, &ours);
    if (status != OB_OK) return status;
    ours.struct_size = properties->struct_size;
    std::memcpy(properties, &ours, sizeof ours);
    return status;
  };
}
FAULT("properties_change") {
  table.device_properties = [](void*, int32_t device, ob_device_properties* properties) {
    const ob_status status = BASE(device_properties, device, properties);
    properties->compute_units = 1 + calls++ % 7;
    return status;
  };
}
FAULT("any_device") {
  table.event_create = [](void*, const ob_event_description* wanted, ob_event* event) {
    ob_event_description other = *wanted;
    if (other.device < 0 || other.device > 1) other.device = 0;
    return BASE(event_create, &other, event);
  };
}
FAULT("peers_disagree") {
  table.peer_access = [](void*, int32_t device, int32_t peer, int32_t* direct) {
    const ob_status status = BASE(peer_access, device, peer, direct);
    if (status == OB_OK) *direct = device;
    return status;
  };
}
FAULT("state_of_400_percent") {
  table.device_state = [](void*, int32_t device, ob_device_state* state) {
    const ob_status status = BASE(device_state, device, state);
    state->known |= OB_STATE_UTILIZATION;
    state->utilization = 400;
    return status;
  };
}
FAULT("devices_share_memory") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    if (is_wrong(wanted)) return BASE(allocate, wanted, address);
    static std::vector<ob_address> given[2];
    ob_allocation first = *wanted;
    first.device = 0;
    auto& mine = given[wanted->device];
    const auto& other = given[1 - wanted->device];
    if (other.size() > mine.size()) {
      *address = other[mine.size()];
      mine.push_back(*address);
      return ob_status(OB_OK);
    }
    const ob_status status = BASE(allocate, &first, address);
    if (status == OB_OK) mine.push_back(*address);
    return status;
  };
  table.deallocate = [](void*, int32_t, ob_address) { return ob_status(OB_OK); };
  table.queue_create = [](void*, const ob_queue_description* wanted, ob_queue* queue) {
    ob_queue_description first = *wanted;
    if (first.device == 1) first.device = 0;
    return BASE(queue_create, &first, queue);
  };
  table.event_create = [](void*, const ob_event_description* wanted, ob_event* event) {
    ob_event_description first = *wanted;
    if (first.device == 1) first.device = 0;
    return BASE(event_create, &first, event);
  };
}
FAULT("one_buffer_for_properties") {
  table.device_properties = [](void*, int32_t device, ob_device_properties* properties) {
    static ob_device_properties ours;
    ours = {};
    ours.struct_size = sizeof ours;
    const ob_status status = BASE(device_properties, device, &ours);
    ours.vendor[0] = static_cast<char>('0' + device);
    sleep_ms(1);
    if (status == OB_OK) {
      const size_t size = properties->struct_size;
      ours.struct_size = size;
      std::memcpy(properties, &ours, size < sizeof ours ? size : sizeof ours);
    }
    return status;
  };
}

// ---- Memory

FAULT("unaligned") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    ob_allocation more = *wanted;
    if (more.bytes != 0 && more.bytes < (1u << 30)) more.bytes += 8;
    const ob_status status = BASE(allocate, &more, address);
    *address += 8;
    return status;
  };
  table.deallocate = [](void*, int32_t device, ob_address address) {
    return BASE(deallocate, device, address - 8);
  };
}
FAULT("allocations_overlap") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    if (is_wrong(wanted)) return BASE(allocate, wanted, address);
    std::lock_guard lock(arena_lock);
    return take(arenas[wanted->device], wanted, wanted->bytes / 2, address);
  };
  table.deallocate = give_back;
}
FAULT("no_bytes_allocated") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    ob_allocation some = *wanted;
    if (some.bytes == 0) some.bytes = 1;
    return BASE(allocate, &some, address);
  };
}
FAULT("no_memory_is_an_error") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    const ob_status status = BASE(allocate, wanted, address);
    return status == OB_OUT_OF_MEMORY ? fail(OB_ERROR, "Something is wrong.") : status;
  };
}
FAULT("memory_info_is_constant") {
  table.memory_info = [](void*, int32_t device, uint64_t* free_bytes, uint64_t* total) {
    const ob_status status = BASE(memory_info, device, free_bytes, total);
    if (status == OB_OK) *free_bytes = *total;
    return status;
  };
}
FAULT("total_memory_lies") {
  table.device_properties = [](void*, int32_t device, ob_device_properties* properties) {
    const ob_status status = BASE(device_properties, device, properties);
    properties->total_memory *= 4;
    return status;
  };
  table.memory_info = [](void*, int32_t device, uint64_t* free_bytes, uint64_t* total) {
    const ob_status status = BASE(memory_info, device, free_bytes, total);
    if (status == OB_OK) *free_bytes += 3 * *total, *total *= 4;
    return status;
  };
}
FAULT("nothing_is_freed") {
  table.deallocate = [](void*, int32_t, ob_address) { return ob_status(OB_OK); };
}
FAULT("freed_memory_is_given_twice") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    if (is_wrong(wanted)) return BASE(allocate, wanted, address);
    std::lock_guard lock(arena_lock);
    Arena& arena = arenas[wanted->device];
    const auto again = arena.freed.find(wanted->bytes);
    if (again == arena.freed.end()) return take(arena, wanted, wanted->bytes, address);
    *address = again->second;  // and stays free
    return ob_status(OB_OK);
  };
  table.deallocate = give_back;
}
FAULT("allocation_waits") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    const ob_status status = BASE(allocate, wanted, address);
    if (status == OB_OK) BASE(device_synchronize, wanted->device);
    return status;
  };
}
FAULT("allocation_without_lock") {
  table.allocate = [](void*, const ob_allocation* wanted, ob_address* address) {
    if (is_wrong(wanted)) return BASE(allocate, wanted, address);
    Arena& arena = arenas[wanted->device];
    {
      std::lock_guard lock(arena_lock);
      open(arena, wanted->device);
    }
    const ob_address mine = arena.next;
    sleep_ms(1);
    arena.next = mine + (wanted->bytes + 63) / 64 * 64;
    if (arena.next > arena.end) return fail(OB_OUT_OF_MEMORY, "No room.");
    *address = mine;
    return ob_status(OB_OK);
  };
  table.deallocate = [](void*, int32_t, ob_address) { return ob_status(OB_OK); };
}
FAULT("pinned_memory_loses_its_end") {
  static uint64_t start, end;
  table.host_allocate = [](void*, const ob_host_allocation* wanted, void** pointer) {
    const ob_status status = BASE(host_allocate, wanted, pointer);
    if (status != OB_OK) return status;
    start = reinterpret_cast<uint64_t>(*pointer);
    end = start + wanted->bytes;
    return status;
  };
  table.copy_host_to_device = [](void*, ob_queue queue, ob_address destination, const void* source,
                                 uint64_t bytes) {
    const auto from = reinterpret_cast<uint64_t>(source);
    const bool pinned = from >= start && from < end && bytes > 1;
    return BASE(copy_host_to_device, queue, destination, source, bytes - pinned);
  };
}
FAULT("registered_memory_is_a_copy") {
  static char* shadow;
  static uint64_t start;
  table.host_register = [](void*, void* pointer, uint64_t bytes) {
    start = reinterpret_cast<uint64_t>(pointer);
    shadow = static_cast<char*>(std::malloc(bytes));
    std::memcpy(shadow, pointer, bytes);
    return ob_status(OB_OK);
  };
  table.host_unregister = [](void*, void*) {
    start = 0;
    return ob_status(OB_OK);
  };
  table.copy_device_to_host = [](void*, ob_queue queue, void* destination, ob_address source,
                                 uint64_t bytes) {
    const bool registered = start != 0 && reinterpret_cast<uint64_t>(destination) == start;
    return BASE(copy_device_to_host, queue, registered ? shadow : destination, source, bytes);
  };
}
FAULT("host_access_lies") {
  table.device_properties = [](void*, int32_t device, ob_device_properties* properties) {
    const ob_status status = BASE(device_properties, device, properties);
    properties->host_access = OB_HOST_ACCESS_COHERENT;
    return status;
  };
}
