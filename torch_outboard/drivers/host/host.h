/*
 * Shared declarations of the host driver.
 *
 *   host.c          settings, devices and their state, the table
 *   program.c       programs and kernels
 *   launch.c        launches, and threads that share their work
 *   communicator.c  communicators: processes that share memory
 *   collectives.c   collectives and messages between their ranks
 *
 * Queues, events, transfers and graphs are in drivers/queues, memory in drivers/memory, the
 * compiler of kernels in drivers/compiler, messages of failures in drivers/common. Functions of the
 * table have the contract's names; outboard/driver.h describes them.
 */
#ifndef OUTBOARD_DRIVERS_HOST_H
#define OUTBOARD_DRIVERS_HOST_H

#include <common/failures.h>
#include <common/system.h>
#include <compiler/compiler.h>
#include <memory/memory.h>
#include <outboard/driver.h>
#include <pthread.h>
#include <queues/queues.h>
#include <stdatomic.h>
#include <stdbool.h>

/* ---- host.c ---- */

enum { MAX_THREADS = 256 };

/* Constant after `initialize`. */
typedef struct settings {
  int32_t devices;
  uint64_t memory; /* bytes of each device, in whole pages */
  bool shared;     /* device addresses are host pointers */
  int threads;     /* of a kernel launch */
} settings;

extern settings host_settings;

/* ---- program.c ---- */

enum { LOCAL_MEMORY_BYTES = 64 * 1024, MAX_PARAMETERS = 256, KERNEL_TIMES = 16 };

/* Finds the compiler, in up to 0.1 s. Later calls do nothing. */
void find_code(void);
/* Sets the properties that depend on the compiler. */
void describe_code(ob_device_properties* properties);

struct ob_kernel_t {
  atomic_int references; /* the owner's, and one for each pending launch */
  ob_program program;    /* the kernel holds a reference */
  int32_t device;
  void (*entry)(const item_range* items, void* const* arguments);
  uint32_t parameter_count;
  const kernel_parameter* parameters;
  _Atomic uint64_t times[KERNEL_TIMES]; /* measured by launch.c */
  char name[128];
};

void release_kernel(ob_kernel kernel);

ob_status program_build(void* context, const ob_program_source* source, ob_program* program);
ob_status program_binary(void* context, ob_program program, void* data, uint64_t* bytes);
ob_status program_load(void* context, const ob_program_image* image, ob_program* program);
ob_status program_release(void* context, ob_program program);
ob_status kernel_create(void* context, ob_program program, const char* name, ob_kernel* kernel);
ob_status kernel_release(void* context, ob_kernel kernel);

/* ---- launch.c ---- */

ob_status launch(void* context, ob_queue queue, const ob_launch* wanted);
/* Ends the threads that share the work of launches. */
void stop_pool(void);

/* ---- communicator.c ---- */

enum { MAX_RANKS = 256, SLOT_BYTES = 512 * 1024, PIPE_BYTES = 64 * 1024 };

/* A ring buffer from one rank to another. The counters only grow; their difference is the number of
 * bytes in the ring. */
typedef struct message_pipe {
  _Alignas(64) _Atomic uint64_t written;
  _Alignas(64) _Atomic uint64_t taken;
  _Alignas(64) char bytes[PIPE_BYTES];
} message_pipe;

/* The operation of a rank in one step. All ranks must have the same. */
typedef struct intent {
  uint64_t elements;
  int32_t kind, reduction;
  uint32_t dtype, peer;
} intent;

typedef struct shared_rank {
  _Alignas(64) _Atomic uint64_t steps; /* collective steps that the rank has reached */
  atomic_bool joined;
  intent intents[2]; /* of this step and the previous one */
} shared_rank;

/* The start of a communicator's file. A new file is zero except for the key. */
typedef struct shared_file {
  unsigned char key[16];
  _Atomic uint32_t ended;             /* 1 + the rank that ended the communicator; 0: none */
  _Alignas(64) _Atomic uint32_t bell; /* counts changes; waiting ranks sleep on it */
  _Atomic uint32_t sleepers;
  shared_rank ranks[MAX_RANKS];
} shared_file;

struct ob_communicator_t {
  atomic_int references; /* the owner's, and one for each pending batch */
  int32_t device;
  uint32_t rank, ranks;
  uint64_t steps; /* finished collective steps */
  int file;
  int original; /* descriptor from communicator_id, in the process of rank 0; else -1 */
  shared_file* shared;
  atomic_bool failed; /* permanent; `message` is set */
  pthread_mutex_t lock;
  char message[256];
};

void release_communicator(ob_communicator released);
/* The buffer for a rank's data in the current step. */
char* slot_of(ob_communicator communicator, uint32_t rank);
message_pipe* pipe_between(ob_communicator communicator, uint32_t from, uint32_t to);
/* Ends the communicator on all ranks. The first message stays. */
void fail_communicator(ob_communicator communicator, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
/* False if a rank has ended the communicator. `work` names the caller's next operation. */
bool goes_on(ob_communicator communicator, const char* work);
/* Wakes the waiting ranks after a change. */
void ring(ob_communicator communicator);

/* The state of a wait for another rank: `while (not_yet && keep_waiting(&waiting, rank))`. The
 * caller initializes the first three fields. */
typedef struct patience {
  ob_communicator communicator;
  const char* work;
  uint64_t timeout; /* milliseconds; 0: none */
  uint64_t start;
  uint32_t bell;
  spin spinning;
  bool looked_again; /* after the rank's process had ended */
} patience;

/* False if the communicator has failed. */
bool keep_waiting(patience* waiting, uint32_t rank);

ob_status communicator_id(void* context, ob_communicator_id* id);
ob_status communicator_create(void* context, const ob_communicator_description* wanted,
                              ob_communicator* communicator);
ob_status communicator_destroy(void* context, ob_communicator communicator);
ob_status communicator_abort(void* context, ob_communicator communicator);
ob_status communicator_error(void* context, ob_communicator communicator);

/* ---- collectives.c ---- */

ob_status communicate(void* context, ob_queue queue, ob_communicator communicator,
                      const ob_communication* wanted);
ob_status communication_begin(void* context);
ob_status communication_end(void* context);

#endif /* OUTBOARD_DRIVERS_HOST_H */
