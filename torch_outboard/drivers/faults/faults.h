/*
 * Shared declarations of the layer `faults`.
 *
 *   faults.cpp   settings, injected faults, and the wrapped functions
 *   objects.cpp  live objects, and checks of their use
 */
#ifndef OUTBOARD_DRIVERS_FAULTS_H
#define OUTBOARD_DRIVERS_FAULTS_H

#include <common/layer.h>
#include <outboard/driver.h>

#include <cinttypes>
#include <string>
#include <vector>

namespace faults {

using layers::g_driver;
using layers::kMaxDevices;
using layers::refuse;

inline bool is_device(int32_t device) { return device >= 0 && device < kMaxDevices; }

/*
 * Every function of the contract, with the kind of its wrapper and the kind's arguments. Kinds,
 * which faults.cpp defines:
 *
 *   CALL     check, after: hooks, both optional
 *   WORK     check: puts work on a queue
 *   WAIT     check: calls the driver even when it is to fail
 *   CREATE   object kind, check
 *   DESTROY  object kind: calls the driver like WAIT
 *
 * A hook gets the function's arguments without the context and returns a status. Each wrapper
 * checks that handles among the arguments are alive. `a ?: b` is the first status that is not
 * OB_OK.
 */
/* clang-format off */
#define FAULTS_FUNCTIONS(F)                                                                       \
  F(CALL, initialize, nothing, note_devices)                                                      \
  F(WAIT, finalize)                                                                               \
  F(CALL, device_count)                                                                           \
  F(CALL, device_properties)                                                                      \
  F(CALL, device_state)                                                                           \
  F(CALL, peer_access)                                                                            \
  F(CREATE, allocate, ALLOCATION, [](const ob_allocation* wanted, auto) {                         \
    return check_limit(wanted->device, wanted->bytes); })                                         \
  F(DESTROY, deallocate, ALLOCATION)                                                              \
  F(CALL, memory_info, nothing, limit_memory_info)                                                \
  F(CREATE, host_allocate, PINNED)                                                                \
  F(DESTROY, host_deallocate, PINNED)                                                             \
  F(CREATE, queue_create, QUEUE)                                                                  \
  F(DESTROY, queue_destroy, QUEUE)                                                                \
  F(CALL, queue_query)                                                                            \
  F(WAIT, queue_synchronize)                                                                      \
  F(WAIT, device_synchronize, use_device)                                                         \
  F(CALL, queue_native_handle)                                                                    \
  F(CREATE, event_create, EVENT)                                                                  \
  F(DESTROY, event_destroy, EVENT)                                                                \
  F(WORK, event_record)                                                                           \
  F(CALL, event_wait)                                                                             \
  F(CALL, event_query)                                                                            \
  F(WAIT, event_synchronize)                                                                      \
  F(CALL, event_elapsed)                                                                          \
  F(WORK, copy_host_to_device, [](ob_queue queue, ob_address to, auto, uint64_t bytes) {          \
    return check_range(queue, to, bytes); })                                                      \
  F(WORK, copy_device_to_host, [](ob_queue queue, auto, ob_address from, uint64_t bytes) {        \
    return check_range(queue, from, bytes); })                                                    \
  F(WORK, copy_device_to_device,                                                                  \
    [](ob_queue queue, ob_address to, ob_address from, uint64_t bytes) {                          \
      return check_range(queue, to, bytes) ?: check_range(queue, from, bytes); })                 \
  F(WORK, copy_peer, [](ob_queue, int32_t to_device, ob_address to, int32_t from_device,          \
                        ob_address from, uint64_t bytes) {                                        \
    return check_range_on(to_device, to, bytes) ?: check_range_on(from_device, from, bytes); })   \
  F(WORK, copy_host_to_device_2d, [](ob_queue queue, ob_address to, uint64_t pitch, auto,         \
                                     uint64_t, uint64_t bytes, uint64_t rows) {                   \
    return check_rows(queue, to, pitch, bytes, rows); })                                          \
  F(WORK, copy_device_to_host_2d, [](ob_queue queue, auto, uint64_t, ob_address from,             \
                                     uint64_t pitch, uint64_t bytes, uint64_t rows) {             \
    return check_rows(queue, from, pitch, bytes, rows); })                                        \
  F(WORK, copy_device_to_device_2d, [](ob_queue queue, ob_address to, uint64_t to_pitch,          \
                                       ob_address from, uint64_t from_pitch, uint64_t bytes,      \
                                       uint64_t rows) {                                           \
    return check_rows(queue, to, to_pitch, bytes, rows)                                           \
        ?: check_rows(queue, from, from_pitch, bytes, rows); })                                   \
  F(WORK, fill, [](ob_queue queue, ob_address to, auto, uint32_t, uint64_t bytes) {               \
    return check_range(queue, to, bytes); })                                                      \
  F(WORK, host_callback)                                                                          \
  F(CREATE, program_build, PROGRAM)                                                               \
  F(CALL, program_binary)                                                                         \
  F(CREATE, program_load, PROGRAM)                                                                \
  F(DESTROY, program_release, PROGRAM)                                                            \
  F(CREATE, kernel_create, KERNEL)                                                                \
  F(DESTROY, kernel_release, KERNEL)                                                              \
  F(CALL, kernel_attributes)                                                                      \
  F(WORK, launch, check_launch)                                                                   \
  F(CALL, matrix_product, check_matrix_product)                                                   \
  F(CALL, convolution, check_convolution)                                                         \
  F(CALL, graph_begin)                                                                            \
  F(CREATE, graph_end, GRAPH)                                                                     \
  F(WORK, graph_launch)                                                                           \
  F(DESTROY, graph_release, GRAPH)                                                                \
  F(CALL, event_time)                                                                             \
  F(CREATE, host_register, REGISTERED, check_unregistered)                                        \
  F(DESTROY, host_unregister, REGISTERED)                                                         \
  F(CALL, memory_export, [](int32_t device, ob_address address, auto) {                           \
    return check_start_on(device, address); })                                                    \
  F(CREATE, memory_import, IMPORT)                                                                \
  F(DESTROY, memory_close, IMPORT)                                                                \
  F(CALL, device_reset, check_given_back, recover)                                                \
  F(CREATE, address_reserve, ADDRESSES)                                                           \
  F(DESTROY, address_release, ADDRESSES)                                                          \
  F(CALL, memory_map, [](int32_t device, ob_address address, uint64_t bytes) {                    \
    return check_lost(device) ?: check_reserved(device, address, bytes); })                       \
  F(CALL, memory_unmap, check_reserved)                                                           \
  F(CALL, communicator_id)                                                                        \
  F(CREATE, communicator_create, COMMUNICATOR)                                                    \
  F(DESTROY, communicator_destroy, COMMUNICATOR)                                                  \
  F(WAIT, communicator_abort)                                                                     \
  F(CALL, communicator_error)                                                                     \
  F(WORK, communicate)                                                                            \
  F(CALL, communication_begin)                                                                    \
  F(CALL, communication_end)                                                                      \
  F(WORK, inject_failure)
/* clang-format on */

enum Function {
#define FAULTS_ENUM(kind, name, ...) FUNCTION_##name,
  FAULTS_FUNCTIONS(FAULTS_ENUM)
#undef FAULTS_ENUM
      FUNCTION_COUNT
};

/* ---- faults.cpp */

/* Puts the delay of work on a queue. */
ob_status delay(ob_queue queue);
/* OB_DEVICE_LOST where `lose` has lost the device. `use_device` counts the use, and loses the
 * device if this was to be the one. */
ob_status check_lost(int32_t device);
ob_status use_device(int32_t device);

/* ---- objects.cpp */

enum ObjectKind {
  ALLOCATION,
  PINNED,
  QUEUE,
  EVENT,
  PROGRAM,
  KERNEL,
  GRAPH,
  REGISTERED,
  IMPORT,
  ADDRESSES,
  COMMUNICATOR,
  OBJECT_KIND_COUNT
};

struct Object {
  int32_t device = -1;
  uint64_t bytes = 0;
};

/* How an object is known: by its address or handle. */
inline uint64_t key_of(uint64_t address) { return address; }
inline uint64_t key_of(const void* handle) { return reinterpret_cast<uintptr_t>(handle); }

void add_object(ObjectKind kind, uint64_t key, const Object& added);
/* False if there is no such object: never created or already destroyed. */
bool remove_object(ObjectKind kind, uint64_t key, Object& removed);
/* The keys of live objects of a device. */
std::vector<uint64_t> live_objects_of(ObjectKind kind, int32_t device);
uint64_t live_bytes(int32_t device);
/* Lines: "live KIND COUNT" for each kind, "misuses COUNT", and "leak KIND KEY ..." for each live
 * object. */
std::string describe_objects();

/* Whether any host pointer is an address of the device. */
void set_adopts_host_memory(int32_t device, bool adopts);

/* The checks of FAULTS_FUNCTIONS. A call that they refuse counts as a misuse of the driver. */
ob_status not_alive(ObjectKind kind, uint64_t key);
ob_status check_live(ObjectKind kind, uint64_t key);
ob_status check_queue(ob_queue queue);
ob_status check_event(ob_event event);
ob_status check_unregistered(const void* pointer, uint64_t bytes);
ob_status check_start_on(int32_t device, ob_address address);
ob_status check_reserved(int32_t device, ob_address address, uint64_t bytes);
ob_status check_given_back(int32_t device);
ob_status check_range_on(int32_t device, ob_address address, uint64_t bytes);
ob_status check_range(ob_queue queue, ob_address address, uint64_t bytes);
ob_status check_rows(ob_queue queue, ob_address address, uint64_t pitch, uint64_t row_bytes,
                     uint64_t rows);
ob_status check_launch(ob_queue queue, const ob_launch* launch);
/* These two also delay the work, unless it is a query. */
ob_status check_matrix_product(ob_queue queue, const ob_matrix_product* description);
ob_status check_convolution(ob_queue queue, const ob_convolution* description);

}  // namespace faults

#endif /* OUTBOARD_DRIVERS_FAULTS_H */
