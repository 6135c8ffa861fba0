#include "runtime/driver/driver_table.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "runtime/streams/wait.h"

namespace outboard {
namespace {

// ---- Checks ----

// The name of the first of some functions that is there or not, as `present` says; "" if there is
// none. `names`: theirs, separated by commas.
template <class... Function>
std::string first_member(bool present, const char* names, Function... functions) {
  std::istringstream stream(names);
  std::string name;
  for (const bool there : {functions != nullptr...}) {
    std::getline(stream >> std::ws, name, ',');
    if (there == present) return name;
  }
  return "";
}

// "" or the problem of functions that a driver has all or none of, as the rest of "the driver's
// table ".
template <class... Function>
std::string group_problem(const char* names, Function... functions) {
  const std::string present = first_member(true, names, functions...);
  const std::string missing = first_member(false, names, functions...);
  if (present.empty() || missing.empty()) return "";
  return c10::str("has `", present, "` and lacks `", missing,
                  "`, which go together; bring both or leave both NULL");
}

struct Table : ob_driver {
  std::string problem() const;  // likewise
};

#define OUTBOARD_NAMED(...) #__VA_ARGS__, __VA_ARGS__
#define OUTBOARD_GROUP(...) group_problem(OUTBOARD_NAMED(__VA_ARGS__))

std::string Table::problem() const {
  const std::string missing = first_member(
      false, OUTBOARD_NAMED(last_error, initialize, device_count, device_properties, allocate,
                            deallocate, queue_create, queue_destroy, queue_query, queue_synchronize,
                            event_create, event_destroy, event_record, event_wait, event_query,
                            event_synchronize, event_elapsed, copy_host_to_device,
                            copy_device_to_host, copy_device_to_device, fill));
  if (!missing.empty()) return c10::str("lacks `", missing, "`, which every driver must have");
  if (name == nullptr || name[0] == '\0') return "lacks `name`, which every driver has";
  std::string text = name;
  if (replace_invalid_utf8(text.data(), text.size())) return "has a `name` that is not UTF-8";
  for (const std::string& problem :
       {OUTBOARD_GROUP(host_allocate, host_deallocate),
        OUTBOARD_GROUP(program_build, program_release, kernel_create, kernel_release, launch),
        OUTBOARD_GROUP(program_binary, program_load),
        OUTBOARD_GROUP(graph_begin, graph_end, graph_launch, graph_release),
        OUTBOARD_GROUP(host_register, host_unregister),
        OUTBOARD_GROUP(memory_export, memory_import, memory_close),
        OUTBOARD_GROUP(address_reserve, address_release, memory_map, memory_unmap),
        OUTBOARD_GROUP(communicator_id, communicator_create, communicator_destroy,
                       communicator_abort, communicator_error, communicate, communication_begin,
                       communication_end)}) {
    if (!problem.empty()) return problem;
  }
  return "";
}

#undef OUTBOARD_GROUP
#undef OUTBOARD_NAMED

// ---- Defaults of optional functions ----

// Default functions get the driver's context, which does not lead to this table. A process has one
// driver.
const ob_driver* g_table = nullptr;

ob_status no_finalize(void* context) { return OB_OK; }

// Callers pass structs of zeros, which mean "unknown".
ob_status no_device_state(void*, int32_t, ob_device_state*) { return OB_OK; }
ob_status no_kernel_attributes(void*, ob_kernel, ob_kernel_attributes*) { return OB_OK; }

ob_status no_peer_access(void*, int32_t, int32_t, int32_t* direct) {
  *direct = 0;
  return OB_OK;
}

ob_status memory_info_from_properties(void* context, int32_t device, uint64_t* free_bytes,
                                      uint64_t* total_bytes) {
  ob_device_properties properties = {};
  properties.struct_size = sizeof(properties);
  const ob_status status = g_table->device_properties(context, device, &properties);
  *free_bytes = *total_bytes = properties.total_memory;
  return status;
}

ob_status pageable_host_allocate(void* context, const ob_host_allocation* wanted, void** pointer) {
  constexpr size_t kPage = 4096;
  *pointer = std::aligned_alloc(kPage, (wanted->bytes + kPage - 1) / kPage * kPage);
  return *pointer != nullptr ? OB_OK : OB_OUT_OF_MEMORY;
}

ob_status pageable_host_deallocate(void* context, void* pointer) {
  std::free(pointer);
  return OB_OK;
}

ob_status queue_as_native_handle(void* context, ob_queue queue, void** handle) {
  *handle = queue;
  return OB_OK;
}

// Runs `copy` on a new queue of `device` and waits for it.
template <class Copy>
ob_status copy_on_new_queue(void* context, int32_t device, const Copy& copy) {
  ob_queue queue = nullptr;
  ob_status status = create_queue(*g_table, device, 0, &queue);
  if (status != OB_OK) return status;
  status = copy(queue);
  if (status == OB_OK) status = wait_for_queue(*g_table, queue);
  const ob_status destroyed = g_table->queue_destroy(context, queue);
  return status != OB_OK ? status : destroyed;
}

// Synchronous: `queue` is of either device, and a copy between device and host needs a queue of
// that device.
ob_status peer_copy_through_host(void* context, ob_queue queue, int32_t destination_device,
                                 ob_address destination, int32_t source_device, ob_address source,
                                 uint64_t bytes) {
  void* host = nullptr;
  ob_status status = allocate_host_memory(*g_table, bytes, &host);
  if (status != OB_OK) return status;
  // Earlier work on `queue` may produce the source or still read the destination.
  status = wait_for_queue(*g_table, queue);
  if (status == OB_OK) {
    status = copy_on_new_queue(context, source_device, [&](ob_queue other) {
      return g_table->copy_device_to_host(context, other, host, source, bytes);
    });
  }
  if (status == OB_OK) {
    status = copy_on_new_queue(context, destination_device, [&](ob_queue other) {
      return g_table->copy_host_to_device(context, other, destination, host, bytes);
    });
  }
  const ob_status freed = g_table->host_deallocate(context, host);
  return status != OB_OK ? status : freed;
}

ob_address at(ob_address base, uint64_t bytes) { return base + bytes; }
void* at(void* base, uint64_t bytes) { return static_cast<char*>(base) + bytes; }
const void* at(const void* base, uint64_t bytes) { return static_cast<const char*>(base) + bytes; }

// A 2-D copy by a 1-D copy for each row. Pitches are bytes from row to row.
template <auto kCopy, class To, class From>
ob_status copy_rows(void* context, ob_queue queue, To destination, uint64_t destination_pitch,
                    From source, uint64_t source_pitch, uint64_t row_bytes, uint64_t rows) {
  ob_status status = OB_OK;
  for (uint64_t row = 0; row < rows && status == OB_OK; ++row) {
    status = (g_table->*kCopy)(context, queue, at(destination, row * destination_pitch),
                               at(source, row * source_pitch), row_bytes);
  }
  return status;
}

ob_status callback_after_waiting(void* context, ob_queue queue, ob_host_function function,
                                 void* argument) {
  const ob_status status = wait_for_queue(*g_table, queue);
  if (status == OB_OK) function(argument);
  return status;
}

template <class Function>
void fill(Function& field, Function value) noexcept {
  if (field == nullptr) field = value;
}

void fill_defaults(ob_driver& table) noexcept {
  g_table = &table;
  fill(table.host_allocate, &pageable_host_allocate);
  fill(table.host_deallocate, &pageable_host_deallocate);
  fill(table.finalize, &no_finalize);
  fill(table.device_state, &no_device_state);
  fill(table.peer_access, &no_peer_access);
  fill(table.kernel_attributes, &no_kernel_attributes);
  fill(table.memory_info, &memory_info_from_properties);
  fill(table.queue_native_handle, &queue_as_native_handle);
  fill(table.copy_peer, &peer_copy_through_host);
  fill(table.copy_host_to_device_2d,
       &copy_rows<&ob_driver::copy_host_to_device, ob_address, const void*>);
  fill(table.copy_device_to_host_2d,
       &copy_rows<&ob_driver::copy_device_to_host, void*, ob_address>);
  fill(table.copy_device_to_device_2d,
       &copy_rows<&ob_driver::copy_device_to_device, ob_address, ob_address>);
  fill(table.host_callback, &callback_after_waiting);
}

}  // namespace

void adopt_table(const ob_driver& theirs, ob_driver& ours) {
  constexpr size_t kHeaderBytes = offsetof(ob_driver, struct_size) + sizeof(theirs.struct_size);
  TORCH_CHECK(theirs.major == OB_VERSION_MAJOR, "the driver was written for version ", theirs.major,
              " of the driver contract and this torch_outboard speaks version ", OB_VERSION_MAJOR,
              "; install versions of both that match");
  TORCH_CHECK(theirs.struct_size >= kHeaderBytes, "the driver's table says it has ",
              theirs.struct_size,
              " bytes, fewer than its own header; set struct_size to sizeof(ob_driver)");
  TORCH_CHECK(theirs.struct_size % sizeof(void*) == 0, "the driver's table says it has ",
              theirs.struct_size,
              " bytes, which ends within a field; set struct_size to sizeof(ob_driver)");
  const size_t bytes = std::min(theirs.struct_size, sizeof(ours));
  ours = {};
  std::memcpy(&ours, &theirs, bytes);
  ours.struct_size = sizeof(ours);
  ours.minor = std::min(theirs.minor, OB_VERSION_MINOR);
  const std::string problem = Table{ours}.problem();
  TORCH_CHECK(problem.empty(), "the driver's table ", problem, "; see outboard/driver.h");
  fill_defaults(ours);
}

}  // namespace outboard
