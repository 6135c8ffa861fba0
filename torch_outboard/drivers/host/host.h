/*
 * What the parts of the host driver share. Queues, events, transfers and graphs are those of
 * drivers/queues.
 *
 *   host.c      settings, devices, messages, the table
 *   state.c     how busy and how warm the machine is
 *   memory.c    memory of devices and pinned memory
 *   program.c   programs and kernels
 *   launch.c    launches
 *   pool.c      the threads that share the work of launches
 *   communicator.c, collectives.c  communication between processes, with drivers/communication
 *
 * Functions that stand in the table have the contract's names and are described there.
 */
#ifndef OUTBOARD_DRIVERS_HOST_H
#define OUTBOARD_DRIVERS_HOST_H

#include <common/system.h>
#include <outboard/driver.h>
#include <pthread.h>
#include <queues/queues.h>
#include <stdatomic.h>
#include <stdbool.h>

/* ---- host.c ---- */

enum { MAX_DEVICES = 64, MAX_THREADS = 256 };

/* Constant after `initialize`. */
typedef struct settings {
  int32_t devices;
  uint64_t memory; /* bytes of each device, in whole pages */
  bool shared;     /* device addresses are host pointers */
  int threads;     /* that run a kernel */
} settings;

extern settings host_settings;

/* ---- memory.c ---- */

/* Reserves the addresses of a device; called once for each. */
ob_status create_memory(int32_t device);

ob_status allocate(void* context, const ob_allocation* wanted, ob_address* address);
ob_status deallocate(void* context, int32_t device, ob_address address);
ob_status memory_info(void* context, int32_t device, uint64_t* free_bytes, uint64_t* total_bytes);
ob_status host_allocate(void* context, const ob_host_allocation* wanted, void** pointer);
ob_status host_deallocate(void* context, void* pointer);
ob_status host_register(void* context, void* pointer, uint64_t bytes);
ob_status host_unregister(void* context, void* pointer);
ob_status memory_export(void* context, int32_t device, ob_address address,
                        ob_memory_handle* handle);
ob_status memory_import(void* context, int32_t device, const ob_memory_handle* handle,
                        ob_address* address);
ob_status memory_close(void* context, int32_t device, ob_address address);

/* ---- program.c ---- */

enum { LOCAL_MEMORY_BYTES = 64 * 1024, MAX_PARAMETERS = 256, KERNEL_TIMES = 16 };

/* Looks for a compiler; once, and may take a tenth of a second. */
void find_code(void);
/* Fills in what depends on whether there are kernels. */
void describe_code(ob_device_properties* properties);

/* What an entry is called with: the struct ob_range of dialects/clang/entry.h. */
typedef struct item_range {
  uint64_t first[3], last[3], global_size[3], global_offset[3], dimensions;
} item_range;

/* As the compiler's part writes them: pointers are OB_ARGUMENT_ADDRESS, others OB_ARGUMENT_VALUE.
 */
typedef struct kernel_parameter {
  uint32_t kind, bytes;
} kernel_parameter;

struct ob_kernel_t {
  atomic_int references; /* of its owner and of launches */
  ob_program program;    /* which it keeps alive */
  int32_t device;
  void (*entry)(const item_range* items, void* const* arguments);
  uint32_t parameter_count;
  const kernel_parameter* parameters;
  _Atomic uint64_t times[KERNEL_TIMES]; /* see launch.c */
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

/* ---- pool.c ---- */

/* Calls run(argument, piece, thread) once for each piece below `pieces`, thread 0 being the caller;
 * returns when all are done. False, and nothing was called, if others share work already. */
bool share_work(void (*run)(void* argument, uint64_t piece, int thread), void* argument,
                uint64_t pieces);
void stop_pool(void);

/* ---- communicator.c ---- */

enum { MAX_RANKS = 256, SLOT_BYTES = 512 * 1024, PIPE_BYTES = 64 * 1024 };

/* A ring of bytes from one rank to another; the counts are of all bytes so far. */
typedef struct message_pipe {
  _Alignas(64) _Atomic uint64_t written;
  _Alignas(64) _Atomic uint64_t taken;
  _Alignas(64) char bytes[PIPE_BYTES];
} message_pipe;

/* What a rank has come for. */
typedef struct intent {
  uint64_t elements;
  int32_t kind, reduction;
  uint32_t dtype, peer;
} intent;

typedef struct shared_rank {
  _Alignas(64) _Atomic uint64_t steps; /* of collectives, to which the rank has come */
  atomic_bool joined;
  intent intents[2]; /* of this step and the one before */
} shared_rank;

/* What begins the file of a communicator: a new one reads as zeros but for the key. */
typedef struct shared_file {
  unsigned char key[16];
  _Atomic uint32_t ended; /* one more than the rank that ended everything */
  _Alignas(64) _Atomic uint32_t bell;
  _Atomic uint32_t sleepers;
  shared_rank ranks[MAX_RANKS];
} shared_file;

struct ob_communicator_t {
  atomic_int references; /* of its owner and of work */
  int32_t device;
  uint32_t rank, ranks;
  uint64_t steps; /* of collectives that are done */
  int file;
  int original; /* of the id, in the process of rank 0; else -1 */
  shared_file* shared;
  atomic_bool failed; /* for ever; then there is a message */
  pthread_mutex_t lock;
  char message[256];
};

void release_communicator(ob_communicator released);
/* Where a rank puts what it gives in this step. */
char* slot_of(ob_communicator communicator, uint32_t rank);
message_pipe* pipe_between(ob_communicator communicator, uint32_t from, uint32_t to);
/* Ends everything on all ranks; the first message stays. */
void fail_communicator(ob_communicator communicator, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
/* Whether no rank has ended everything; `work` is what this one is about to do. */
bool goes_on(ob_communicator communicator, const char* work);
/* Tells all ranks that something happened. */
void ring(ob_communicator communicator);

/* A wait for another rank, `while (not_yet && keep_waiting(&waiting, rank))`. Begins with the first
 * three fields. */
typedef struct patience {
  ob_communicator communicator;
  const char* work;
  uint64_t timeout; /* milliseconds; 0: without end */
  uint64_t start;
  uint32_t bell;
  spin spinning;
  bool looked_again;
} patience;

/* False when there is nothing to wait for any more: the communicator has failed. */
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

/* ---- reductions.c ---- */

/* out[i] = the reduction of parts[0][i], parts[1][i] ... in this order, each of `count` elements of
 * the dtype bit; `out` may be parts[0]. Integers wrap around, floating point of 16 bits is computed
 * with as float32. False for a dtype and a reduction that do not go together, and with `count` 0
 * this is all that happens. */
bool reduce_parts(uint32_t dtype, ob_reduction reduction, void* out, const void* const* parts,
                  uint32_t ranks, uint64_t count);

#endif /* OUTBOARD_DRIVERS_HOST_H */
