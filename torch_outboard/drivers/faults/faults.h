/* Shared by the parts of the layer `faults`: wrapper.c wraps, faults.c injects, objects.c tracks.
 */
#ifndef OUTBOARD_DRIVERS_FAULTS_H
#define OUTBOARD_DRIVERS_FAULTS_H

#include <outboard/driver.h>
#include <stdbool.h>

#include "functions.h"

#define FAULTS_EXPORT __attribute__((visibility("default")))
/* How an object is known in the tables. */
#define KEY(handle) ((uint64_t)(uintptr_t)(handle))

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

/* Waits for all queues of a device of the wrapped driver, whatever comes of their work. */
void wait_for_device(int32_t device);

/* ---- faults.c ---- */

/* Applies settings (the grammar is in wrapper.c). Returns NULL, or what is wrong with them. */
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
/* The key of the object at `place` among those of a device; false if there are not so many. */
bool live_object_of(object_kind kind, int32_t device, size_t place, uint64_t* key);
uint64_t live_bytes(int32_t device);
/* Lists what is alive, a line each; returns the length of the whole text. */
size_t describe_objects(char* text, size_t size);

/* Whether any host pointer is an address of the device. */
void set_adopts_host_memory(int32_t device, bool adopts);

/* The checks of functions.h. What they refuse is a misuse of the driver, and counted as one. */
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
