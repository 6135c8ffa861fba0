/*
 * Queues, events, transfers and graphs by threads of the host: each queue has a thread that runs
 * its commands in order. For drivers in C and C++ whose devices have no queues of their own, and
 * whose memory the host reaches.
 *
 *   queue.c     queues and their threads
 *   event.c     events
 *   command.c   commands, and what running one does
 *   transfer.c  copies, fills and callbacks
 *   graph.c     capture and replay
 *
 * Functions that stand in the table have the contract's names and are described there.
 */
#ifndef OUTBOARD_DRIVERS_QUEUES_H
#define OUTBOARD_DRIVERS_QUEUES_H

#include <outboard/driver.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Defined by the driver ---- */

#ifndef __cplusplus /* drivers/common has it for drivers in C++, where `fail` throws */
/* Keeps the message of this thread and returns `status`, so that failing is one statement. */
ob_status fail(ob_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));
#endif
/* The function of the table. Drivers in C++ have that of drivers/common. */
const char* last_error(void* context);
/* Where the driver finds the bytes of [address, address + bytes), which must lie in one allocation
 * of `device` or in memory of the host that the device shares. */
ob_status locate(int32_t device, ob_address address, uint64_t bytes, char** contents);
/* Refuses what cannot be a range of host memory. */
ob_status check_host_range(const void* pointer, uint64_t bytes);

/* ---- For the driver ---- */

/* Raising a thread's priority takes privileges that programs rarely have, so the two priorities
 * are accepted and treated alike. */
enum { GREATEST_PRIORITY = -1, LEAST_PRIORITY = 0 };

/* Called by `initialize`: the name of the driver, which its threads bear, and how many devices
 * there are. */
void start_queues(const char* name, int32_t devices);
/* Lets every queue finish its work, and takes no more. */
void stop_queues(void);
ob_status check_device(int32_t device);
int32_t device_of(ob_queue queue);
bool is_capturing(ob_queue queue);

/* Work of the driver's own, such as a launch: the first member of a struct of its. */
typedef struct task {
  int references; /* changed atomically; begins with 1 */
  /* A failure is reported by queue_synchronize. Until then later tasks of the queue do not run. */
  ob_status (*run)(struct task* work);
  /* Whether it is known to take no longer than waking a thread; NULL: it never is. */
  bool (*is_short)(const struct task* work);
  void (*destroy)(struct task* work);
} task;

/* Owns one reference whatever happens. */
ob_status enqueue_task(ob_queue queue, task* work);

/* ---- In the table ---- */

/* Sets queue_create to queue_synchronize, the functions of events, transfers and graphs, peer_access
 * and host_callback. */
void set_queue_functions(ob_driver* table);

/* Not set, because it is wrong for drivers whose tasks fail. */
ob_status device_synchronize(void* context, int32_t device);
ob_status host_callback(void* context, ob_queue queue, ob_host_function function, void* argument);

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_QUEUES_H */
