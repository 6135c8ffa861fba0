/*
 * Queues, events, transfers and graphs on threads of the host: each queue has a thread that runs
 * its commands in order. For drivers in C and C++ whose devices have no queues, and whose memory
 * the host accesses.
 *
 *   queue.cpp     queues and their threads, commands, graphs
 *   event.cpp     events
 *   transfer.cpp  copies, fills and callbacks
 *
 * Functions of the table have the contract's names; outboard/driver.h describes them.
 */
#ifndef OUTBOARD_DRIVERS_QUEUES_H
#define OUTBOARD_DRIVERS_QUEUES_H

#include <common/failures.h>
#include <common/system.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Defined by the driver ---- */

/* Stores a host pointer to [address, address + bytes). Fails unless the range lies in one
 * allocation of `device`, or in host memory that the device shares. */
ob_status locate(int32_t device, ob_address address, uint64_t bytes, char** contents);
/* Fails for a range that cannot be host memory. */
ob_status check_host_range(const void* pointer, uint64_t bytes);

/* ---- For the driver ---- */

/* Raising a thread's priority needs privileges that programs rarely have, so the two priorities are
 * accepted and have the same effect. */
enum { GREATEST_PRIORITY = -1, LEAST_PRIORITY = 0 };

/* Called by `initialize`: the driver's name, for messages and names of threads, and the number of
 * devices. */
void start_queues(const char* name, int32_t devices);
/* Finishes the work of all queues, which then accept no more. */
void stop_queues(void);
ob_status check_device(int32_t device);
int32_t device_of(ob_queue queue);
bool is_capturing(ob_queue queue);

/* Work of the driver, such as a launch: the first member of the driver's struct. */
typedef struct task {
  int references; /* changed atomically; begins with 1 */
  /* A failure is reported by queue_synchronize. Until then later tasks of the queue do not run. */
  ob_status (*run)(struct task* work);
  /* Whether the task is known to take less time than waking a thread; NULL: never. */
  bool (*is_short)(const struct task* work);
  void (*destroy)(struct task* work);
} task;

/* Takes ownership of one reference, also on failure. */
ob_status enqueue_task(ob_queue queue, task* work);

/* ---- In the table ---- */

/* Sets queue_create to queue_synchronize, the functions of events, transfers and graphs,
 * peer_access, host_callback and inject_failure. */
void set_queue_functions(ob_driver* table);

/* Not set, because it is wrong for drivers whose tasks fail. */
ob_status device_synchronize(void* context, int32_t device);
ob_status host_callback(void* context, ob_queue queue, ob_host_function function, void* argument);

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_QUEUES_H */
