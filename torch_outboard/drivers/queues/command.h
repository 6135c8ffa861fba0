/* Shared declarations of drivers/queues. */
#ifndef OUTBOARD_DRIVERS_QUEUES_COMMAND_H
#define OUTBOARD_DRIVERS_QUEUES_COMMAND_H

#include <pthread.h>
#include <stdatomic.h>

#include "queues.h"

/* ---- event.c ---- */

/* One call of event_record. The event, the command in the queue and each wait hold a reference, so
 * each may end first, and recording the event again does not change earlier waits. */
typedef struct recording {
  atomic_int references;
  atomic_int missing; /* commands of kind RECORD that have not run; 0: it has happened */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t time; /* nanoseconds, valid once it has happened */
} recording;

recording* create_recording(void); /* `missing` is 1; NULL without memory */
recording* retain(recording* retained);
void release(recording* released);
bool has_happened(recording* asked);
void wait_until_happened(recording* awaited);
void run_record(recording* recorded);

void set_event_functions(ob_driver* table);

/* ---- transfer.c ---- */

void set_transfer_functions(ob_driver* table);

/* ---- queue.c ---- */

typedef enum command_kind { COPY, FILL, CALLBACK, TASK, RECORD, WAIT } command_kind;

typedef struct command {
  struct command* next;
  command_kind kind;
  union {
    struct {
      char* destination;
      const char* source;
      uint64_t destination_pitch, source_pitch, row_bytes, rows;
    } copy;
    struct {
      char* destination;
      uint64_t bytes;
      uint32_t pattern_bytes;
      unsigned char pattern[16];
    } fill;
    struct {
      ob_host_function function;
      void* argument;
    } callback;
    task* task;           /* the command owns one reference */
    recording* recording; /* of RECORD and WAIT; the command owns one reference */
  };
} command;

struct ob_queue_t {
  int32_t device;
  pthread_mutex_t lock;
  pthread_cond_t work_arrived;
  pthread_cond_t work_done;
  command *first, *last;
  /* Written with the lock, read without: two loads tell that a queue is idle. */
  _Atomic uint64_t submitted, completed;
  atomic_bool failed; /* since the last queue_synchronize; written and read likewise */
  int waiting;        /* threads in queue_synchronize */
  bool has_worker, stopping;
  pthread_t worker;
  ob_graph graph; /* that captures commands; NULL: none */
  ob_queue next;  /* in the list of all queues */
  char failure[1024];
};

/* Captures, runs or submits a command. Takes ownership of its references, also on failure. */
ob_status enqueue(ob_queue queue, const command* work);

#endif /* OUTBOARD_DRIVERS_QUEUES_COMMAND_H */
