/*
 * Shared declarations of the layer `faults`.
 *
 *   wrapper.c  the wrapped functions, and the settings' grammar
 *   faults.c   injected faults
 *   objects.c  live objects, and checks of their use
 */
#ifndef OUTBOARD_DRIVERS_FAULTS_H
#define OUTBOARD_DRIVERS_FAULTS_H

#include <outboard/driver.h>
#include <stdbool.h>

#define FAULTS_EXPORT __attribute__((visibility("default")))
/* How an object is known in the tables. */
#define KEY(handle) ((uint64_t)(uintptr_t)(handle))

/* ---- The functions of the contract ---- */

/*
 * Every function of the contract, with the kind of its wrapper and the kind's arguments. wrapper.c
 * defines the kinds:
 *
 *   CALL     name, parameters, arguments, check
 *   WORK     name, parameters, arguments, queue, check: puts work on a queue
 *   WAIT     name, parameters, arguments, check: calls the driver even when it is to fail
 *   CREATE   name, parameters, arguments, check, object kind, handle, device, bytes
 *   DESTROY  name, parameters, arguments, object kind, handle: calls the driver like WAIT
 *   CUSTOM   name: written by hand
 *
 * Parameters and arguments go without the context, which is passed on.
 * A check is a status, OB_OK when there is nothing to say; `a ?: b` is the first that is not.
 */
/* clang-format off */
#define FAULTS_FUNCTIONS(F)                                                                       \
  F(CUSTOM, initialize)                                                                            \
  F(WAIT, finalize, (), (), OB_OK)                                                             \
  F(CALL, device_count, (int32_t* count), (count), OB_OK)                                          \
  F(CALL, device_properties, (int32_t device, ob_device_properties* properties),                   \
    (device, properties), OB_OK)                                                                   \
  F(CALL, device_state, (int32_t device, ob_device_state* state), (device, state), OB_OK)          \
  F(CALL, peer_access, (int32_t device, int32_t peer, int32_t* direct), (device, peer, direct),    \
    OB_OK)                                                                                         \
  F(CREATE, allocate, (const ob_allocation* wanted, ob_address* address), (wanted, address),       \
    check_lost(wanted->device) ?: check_limit(wanted->device, wanted->bytes), ALLOCATION,          \
    *address, wanted->device,                                                                      \
    wanted->bytes)                                                                                 \
  F(DESTROY, deallocate, (int32_t device, ob_address address), (device, address),                  \
    ALLOCATION, address)                                                                           \
  F(CUSTOM, memory_info)                                                                           \
  F(CREATE, host_allocate, (const ob_host_allocation* wanted, void** pointer),                     \
    (wanted, pointer), OB_OK, PINNED, KEY(*pointer), -1, wanted->bytes)                            \
  F(DESTROY, host_deallocate, (void* pointer), (pointer), PINNED, KEY(pointer))                    \
  F(CREATE, queue_create, (const ob_queue_description* wanted, ob_queue* queue),                   \
    (wanted, queue), check_lost(wanted->device), QUEUE, KEY(*queue), wanted->device, 0)                                 \
  F(DESTROY, queue_destroy, (ob_queue queue), (queue), QUEUE, KEY(queue))                          \
  F(CALL, queue_query, (ob_queue queue), (queue), check_queue(queue))                              \
  F(WAIT, queue_synchronize, (ob_queue queue), (queue), check_queue(queue))                        \
  F(WAIT, device_synchronize, (int32_t device), (device), use_device(device))                      \
  F(CALL, queue_native_handle, (ob_queue queue, void** handle), (queue, handle),                   \
    check_queue(queue))                                                                            \
  F(CREATE, event_create, (const ob_event_description* wanted, ob_event* event),                   \
    (wanted, event), check_lost(wanted->device), EVENT, KEY(*event), wanted->device, 0)                                 \
  F(DESTROY, event_destroy, (ob_event event), (event), EVENT, KEY(event))                          \
  F(WORK, event_record, (ob_event event, ob_queue queue), (event, queue), queue,                   \
    check_event(event))                                                                            \
  F(CALL, event_wait, (ob_queue queue, ob_event event), (queue, event),                            \
    check_queue(queue) ?: check_event(event))                                                      \
  F(CALL, event_query, (ob_event event), (event), check_event(event))                              \
  F(WAIT, event_synchronize, (ob_event event), (event), check_event(event))                        \
  F(CALL, event_elapsed, (ob_event start, ob_event end, double* milliseconds),                     \
    (start, end, milliseconds), check_event(start) ?: check_event(end))                            \
  F(WORK, copy_host_to_device,                                                                     \
    (ob_queue queue, ob_address destination, const void* source, uint64_t bytes),                  \
    (queue, destination, source, bytes), queue, check_range(queue, destination, bytes))            \
  F(WORK, copy_device_to_host,                                                                     \
    (ob_queue queue, void* destination, ob_address source, uint64_t bytes),                        \
    (queue, destination, source, bytes), queue, check_range(queue, source, bytes))                 \
  F(WORK, copy_device_to_device,                                                                   \
    (ob_queue queue, ob_address destination, ob_address source, uint64_t bytes),                   \
    (queue, destination, source, bytes), queue,                                                    \
    check_range(queue, destination, bytes) ?: check_range(queue, source, bytes))                   \
  F(WORK, copy_peer,                                                                               \
    (ob_queue queue, int32_t destination_device, ob_address destination, int32_t source_device,    \
     ob_address source, uint64_t bytes),                                                           \
    (queue, destination_device, destination, source_device, source, bytes), queue,                 \
    check_range_on(destination_device, destination, bytes)                                         \
        ?: check_range_on(source_device, source, bytes))                                           \
  F(WORK, copy_host_to_device_2d,                                                                  \
    (ob_queue queue, ob_address destination, uint64_t destination_pitch, const void* source,       \
     uint64_t source_pitch, uint64_t row_bytes, uint64_t rows),                                    \
    (queue, destination, destination_pitch, source, source_pitch, row_bytes, rows), queue,         \
    check_rows(queue, destination, destination_pitch, row_bytes, rows))                            \
  F(WORK, copy_device_to_host_2d,                                                                  \
    (ob_queue queue, void* destination, uint64_t destination_pitch, ob_address source,             \
     uint64_t source_pitch, uint64_t row_bytes, uint64_t rows),                                    \
    (queue, destination, destination_pitch, source, source_pitch, row_bytes, rows), queue,         \
    check_rows(queue, source, source_pitch, row_bytes, rows))                                      \
  F(WORK, copy_device_to_device_2d,                                                                \
    (ob_queue queue, ob_address destination, uint64_t destination_pitch, ob_address source,        \
     uint64_t source_pitch, uint64_t row_bytes, uint64_t rows),                                    \
    (queue, destination, destination_pitch, source, source_pitch, row_bytes, rows), queue,         \
    check_rows(queue, destination, destination_pitch, row_bytes, rows)                             \
        ?: check_rows(queue, source, source_pitch, row_bytes, rows))                               \
  F(WORK, fill,                                                                                    \
    (ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,          \
     uint64_t bytes),                                                                              \
    (queue, destination, pattern, pattern_bytes, bytes), queue,                                    \
    check_range(queue, destination, bytes))                                                        \
  F(WORK, host_callback, (ob_queue queue, ob_host_function function, void* argument),              \
    (queue, function, argument), queue, OB_OK)                                                     \
  F(CREATE, program_build, (const ob_program_source* source, ob_program* program),                 \
    (source, program), check_lost(source->device), PROGRAM, KEY(*program), source->device, 0)                           \
  F(CALL, program_binary, (ob_program program, void* data, uint64_t* bytes),                       \
    (program, data, bytes), check_live(PROGRAM, KEY(program)))                                     \
  F(CREATE, program_load, (const ob_program_image* image, ob_program* program), (image, program),  \
    check_lost(image->device), PROGRAM, KEY(*program), image->device, 0)                                               \
  F(DESTROY, program_release, (ob_program program), (program), PROGRAM, KEY(program))              \
  F(CREATE, kernel_create, (ob_program program, const char* name, ob_kernel* kernel),              \
    (program, name, kernel), check_live(PROGRAM, KEY(program)), KERNEL, KEY(*kernel), -1, 0)       \
  F(DESTROY, kernel_release, (ob_kernel kernel), (kernel), KERNEL, KEY(kernel))                    \
  F(CALL, kernel_attributes, (ob_kernel kernel, ob_kernel_attributes* attributes),                 \
    (kernel, attributes), check_live(KERNEL, KEY(kernel)))                                         \
  F(WORK, launch, (ob_queue queue, const ob_launch* launch), (queue, launch), queue,               \
    check_launch(queue, launch))                                                                   \
  F(CALL, matrix_product, (ob_queue queue, const ob_matrix_product* description),                  \
    (queue, description),                                                                          \
    check_matrix_product(queue, description)                                                      \
      ?: delay_unless(description->workspace_query, context, queue)) \
  F(CALL, convolution, (ob_queue queue, const ob_convolution* description),                        \
    (queue, description),                                                                          \
    check_convolution(queue, description)                                                         \
      ?: delay_unless(description->workspace_query, context, queue))    \
  F(CALL, graph_begin, (ob_queue queue), (queue), check_queue(queue))                              \
  F(CREATE, graph_end, (ob_queue queue, ob_graph* graph), (queue, graph),                          \
    check_live(QUEUE, KEY(queue)), GRAPH, KEY(*graph), -1, 0)                                                                     \
  F(WORK, graph_launch, (ob_queue queue, ob_graph graph), (queue, graph), queue,                   \
    check_live(GRAPH, KEY(graph)))                                                                 \
  F(DESTROY, graph_release, (ob_graph graph), (graph), GRAPH, KEY(graph))                          \
  F(CALL, event_time, (ob_event event, uint64_t* nanoseconds), (event, nanoseconds),               \
    check_event(event))                                                                            \
  F(CREATE, host_register, (void* pointer, uint64_t bytes), (pointer, bytes),                      \
    check_unregistered(pointer, bytes), REGISTERED, KEY(pointer), -1, bytes)                       \
  F(DESTROY, host_unregister, (void* pointer), (pointer), REGISTERED, KEY(pointer))                \
  F(CALL, memory_export, (int32_t device, ob_address address, ob_memory_handle* handle),           \
    (device, address, handle), check_start_on(device, address))                                    \
  F(CREATE, memory_import,                                                                         \
    (int32_t device, const ob_memory_handle* handle, ob_address* address),                         \
    (device, handle, address), check_lost(device), IMPORT, *address, device, handle->bytes)        \
  F(DESTROY, memory_close, (int32_t device, ob_address address), (device, address), IMPORT,        \
    address)                                                                                       \
  F(CUSTOM, device_reset)                                                                          \
  F(CREATE, address_reserve, (int32_t device, uint64_t bytes, ob_address* address),                \
    (device, bytes, address), check_lost(device), ADDRESSES, *address, device, bytes)              \
  F(DESTROY, address_release, (int32_t device, ob_address address, uint64_t bytes),                \
    (device, address, bytes), ADDRESSES, address)                                                  \
  F(CALL, memory_map, (int32_t device, ob_address address, uint64_t bytes),                        \
    (device, address, bytes), check_lost(device) ?: check_reserved(device, address, bytes))        \
  F(CALL, memory_unmap, (int32_t device, ob_address address, uint64_t bytes),                      \
    (device, address, bytes), check_reserved(device, address, bytes))                              \
  F(CALL, communicator_id, (ob_communicator_id* id), (id), OB_OK)                                  \
  F(CREATE, communicator_create,                                                                   \
    (const ob_communicator_description* wanted, ob_communicator* communicator),                    \
    (wanted, communicator), check_lost(wanted->device), COMMUNICATOR, KEY(*communicator),          \
    wanted->device, 0)                                                                             \
  F(DESTROY, communicator_destroy, (ob_communicator communicator), (communicator), COMMUNICATOR,   \
    KEY(communicator))                                                                             \
  F(WAIT, communicator_abort, (ob_communicator communicator), (communicator),                      \
    check_live(COMMUNICATOR, KEY(communicator)))                                                   \
  F(CALL, communicator_error, (ob_communicator communicator), (communicator),                      \
    check_live(COMMUNICATOR, KEY(communicator)))                                                   \
  F(WORK, communicate,                                                                             \
    (ob_queue queue, ob_communicator communicator, const ob_communication* description),           \
    (queue, communicator, description), queue,                                                     \
    check_live(COMMUNICATOR, KEY(communicator)))                                                   \
  F(CALL, communication_begin, (), (), OB_OK)                                                      \
  F(CALL, communication_end, (), (), OB_OK)
/* clang-format on */

typedef enum function {
#define FAULTS_ENUM(kind, name, ...) FUNCTION_##name,
  FAULTS_FUNCTIONS(FAULTS_ENUM)
#undef FAULTS_ENUM
      FUNCTION_COUNT
} function;

extern const char* const function_names[FUNCTION_COUNT];

/* ---- wrapper.c ---- */

/* Keeps the message of this thread and returns `status`. */
ob_status refuse(ob_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));

/* Waits for all queues of a device of the wrapped driver, and ignores failures. */
void wait_for_device(int32_t device);

/* ---- faults.c ---- */

/* Applies settings (the grammar is in wrapper.c). Returns NULL, or the problem. */
const char* apply_settings(const char* settings);
void forget_settings(void);

/* The answer of begin_call for a call that has to answer OK and do nothing. */
enum { LIE = -1 };

/* Counts a call, makes it slow, and answers with the status that it must fail with, LIE or OB_OK.
 */
ob_status begin_call(function called);
uint64_t calls_of(function called);
uint64_t injected_failures(void);
void forget_calls(void);

uint64_t work_delay_us(void);
void sleep_us(uint64_t microseconds);
uint64_t memory_limit(void); /* bytes per device; 0: none */

/* OB_DEVICE_LOST where `lose` has lost the device. `use_device` counts the use, and loses the
 * device if this was to be the one. */
ob_status check_lost(int32_t device);
ob_status use_device(int32_t device);
void recover(int32_t device);

/* ---- objects.c ---- */

typedef enum object_kind {
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
} object_kind;

extern const char* const object_kind_names[OBJECT_KIND_COUNT];

typedef struct object {
  uint64_t key; /* handle or address */
  int32_t device;
  uint64_t bytes;
} object;

void add_object(object_kind kind, object added);
/* False if there is no such object: never created or already destroyed. */
bool remove_object(object_kind kind, uint64_t key, object* removed);
uint64_t live_objects(object_kind kind);
/* The key of the object with an index among those of a device; false beyond the last. */
bool live_object_of(object_kind kind, int32_t device, size_t index, uint64_t* key);
uint64_t live_bytes(int32_t device);
/* Writes a line for each live object; returns the length of the whole text. */
size_t describe_objects(char* text, size_t size);

/* Whether any host pointer is an address of the device. */
void set_adopts_host_memory(int32_t device, bool adopts);

/* The checks of FAULTS_FUNCTIONS. A call that they refuse counts as a misuse of the driver. */
ob_status not_alive(object_kind kind, uint64_t key);
uint64_t misuses(void);
ob_status check_live(object_kind kind, uint64_t key);
ob_status check_queue(ob_queue queue);
ob_status check_event(ob_event event);
ob_status check_limit(int32_t device, uint64_t bytes);
ob_status check_unregistered(const void* pointer, uint64_t bytes);
ob_status check_start_on(int32_t device, ob_address address);
ob_status check_reserved(int32_t device, ob_address address, uint64_t bytes);
ob_status check_given_back(int32_t device);
ob_status check_range_on(int32_t device, ob_address address, uint64_t bytes);
ob_status check_range(ob_queue queue, ob_address address, uint64_t bytes);
ob_status check_rows(ob_queue queue, ob_address address, uint64_t pitch, uint64_t row_bytes,
                     uint64_t rows);
ob_status check_launch(ob_queue queue, const ob_launch* launch);
ob_status check_matrix_product(ob_queue queue, const ob_matrix_product* description);
ob_status check_convolution(ob_queue queue, const ob_convolution* description);

#endif /* OUTBOARD_DRIVERS_FAULTS_H */
