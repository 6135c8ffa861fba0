/* What the parts of drivers/queues share. */
#ifndef OUTBOARD_DRIVERS_QUEUES_COMMAND_H
#define OUTBOARD_DRIVERS_QUEUES_COMMAND_H

#include <pthread.h>
#include <stdatomic.h>

#include "queues.h"

/* ---- event.c ---- */

/* One use of event_record. The event, the command in the queue and every wait hold a reference, so
 * each can go first, and recording the event again changes nothing for earlier waits. */
typedef struct recording {
  atomic_int references;
  atomic_int missing; /* commands of kind RECORD that have not run; happened: 0 */
  pthread_mutex_t lock;
  pthread_cond_t changed;
  uint64_t time; /* nanoseconds, valid once it has happened */
} recording;

recording* create_recording(void); /* missing one command; NULL if there is no memory */
recording* retain(recording* kept);
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
  /* Changed under the lock, read without: an idle queue answers with two loads. */
  _Atomic uint64_t submitted, completed;
  atomic_bool failed; /* since the queue was last synchronized; likewise */
  int waiting;        /* threads in queue_synchronize */
  bool has_worker, stopping;
  pthread_t worker;
  ob_graph graph; /* not NULL: commands are captured there */
  ob_queue next;  /* in the list of all queues */
  char failure[1024];
};

/* Captures, does or submits a command, and owns what it refers to whatever happens. */
ob_status enqueue(ob_queue queue, const command* work);

#endif /* OUTBOARD_DRIVERS_QUEUES_COMMAND_H */
