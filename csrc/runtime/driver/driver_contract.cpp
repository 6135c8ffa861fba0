#include "runtime/driver/driver_table.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>

#include "runtime/streams/wait.h"

namespace outboard {
namespace {

// ---- Checks ----

struct Member {
  const char* name;
  bool present;
};

// Name of the first member that is there or not, as `present` says; nullptr if there is none.
const char* first_member(std::initializer_list<Member> members, bool present) {
  for (const Member& member : members) {
    if (member.present == present) return member.name;
  }
  return nullptr;
}

// "" or the problem of functions that a driver has all or none of, as the rest of "the driver's
// table ".
std::string group_problem(std::initializer_list<Member> group) {
  const char* present = first_member(group, true);
  const char* missing = first_member(group, false);
  if (present == nullptr || missing == nullptr) return "";
  return c10::str("has `", present, "` and lacks `", missing,
                  "`, which go together; bring both or leave both NULL");
}

// Likewise, of the whole table.
std::string table_problem(const ob_driver& table) {
#define OUTBOARD_MEMBER(field) \
  Member { #field, table.field != nullptr }
  const char* missing = first_member({OUTBOARD_MEMBER(last_error),
                                      OUTBOARD_MEMBER(initialize),
                                      OUTBOARD_MEMBER(device_count),
                                      OUTBOARD_MEMBER(device_properties),
                                      OUTBOARD_MEMBER(allocate),
                                      OUTBOARD_MEMBER(deallocate),
                                      OUTBOARD_MEMBER(queue_create),
                                      OUTBOARD_MEMBER(queue_destroy),
                                      OUTBOARD_MEMBER(queue_query),
                                      OUTBOARD_MEMBER(queue_synchronize),
                                      OUTBOARD_MEMBER(event_create),
                                      OUTBOARD_MEMBER(event_destroy),
                                      OUTBOARD_MEMBER(event_record),
                                      OUTBOARD_MEMBER(event_wait),
                                      OUTBOARD_MEMBER(event_query),
                                      OUTBOARD_MEMBER(event_synchronize),
                                      OUTBOARD_MEMBER(event_elapsed),
                                      OUTBOARD_MEMBER(copy_host_to_device),
                                      OUTBOARD_MEMBER(copy_device_to_host),
                                      OUTBOARD_MEMBER(copy_device_to_device),
                                      OUTBOARD_MEMBER(fill)},
                                     false);
  if (missing != nullptr) return c10::str("lacks `", missing, "`, which every driver must have");
  if (table.name == nullptr || table.name[0] == '\0') return "lacks `name`, which every driver has";
  std::string name = table.name;
  if (replace_invalid_utf8(name.data(), name.size())) return "has a `name` that is not UTF-8";
  for (const std::string& problem :
       {group_problem({OUTBOARD_MEMBER(host_allocate), OUTBOARD_MEMBER(host_deallocate)}),
        group_problem({OUTBOARD_MEMBER(program_build), OUTBOARD_MEMBER(program_release),
                       OUTBOARD_MEMBER(kernel_create), OUTBOARD_MEMBER(kernel_release),
                       OUTBOARD_MEMBER(launch)}),
        group_problem({OUTBOARD_MEMBER(program_binary), OUTBOARD_MEMBER(program_load)}),
        group_problem({OUTBOARD_MEMBER(graph_begin), OUTBOARD_MEMBER(graph_end),
                       OUTBOARD_MEMBER(graph_launch), OUTBOARD_MEMBER(graph_release)}),
        group_problem({OUTBOARD_MEMBER(host_register), OUTBOARD_MEMBER(host_unregister)}),
        group_problem({OUTBOARD_MEMBER(memory_export), OUTBOARD_MEMBER(memory_import),
                       OUTBOARD_MEMBER(memory_close)}),
        group_problem({OUTBOARD_MEMBER(address_reserve), OUTBOARD_MEMBER(address_release),
                       OUTBOARD_MEMBER(memory_map), OUTBOARD_MEMBER(memory_unmap)}),
        group_problem({OUTBOARD_MEMBER(communicator_id), OUTBOARD_MEMBER(communicator_create),
                       OUTBOARD_MEMBER(communicator_destroy), OUTBOARD_MEMBER(communicator_abort),
                       OUTBOARD_MEMBER(communicator_error), OUTBOARD_MEMBER(communicate),
                       OUTBOARD_MEMBER(communication_begin),
                       OUTBOARD_MEMBER(communication_end)})}) {
    if (!problem.empty()) return problem;
  }
#undef OUTBOARD_MEMBER
  return "";
}

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
  if (table.host_allocate == nullptr || table.host_deallocate == nullptr) {
    table.host_allocate = &pageable_host_allocate;
    table.host_deallocate = &pageable_host_deallocate;
  }
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
  const std::string problem = table_problem(ours);
  TORCH_CHECK(problem.empty(), "the driver's table ", problem, "; see outboard/driver.h");
  fill_defaults(ours);
}

}  // namespace outboard
