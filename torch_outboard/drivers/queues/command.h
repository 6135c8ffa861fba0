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

/* ---- command.c ---- */

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

ob_status run_command(const command* work);
/* Done at once, a command that is short costs less than waking a thread. */
bool is_short(const command* work);
/* Drops what a command refers to. */
void release_command(const command* work);
/* Puts a copy at the end of a list, which owns what the command refers to; so does a failure. */
ob_status append(command** first, command** last, const command* work);
void free_commands(command* first);

/* ---- queue.c ---- */

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
/* The same for a caller that holds the queue's lock. */
ob_status enqueue_locked(ob_queue queue, const command* work);

/* ---- graph.c ---- */

/* Owns what the command refers to whatever happens. */
ob_status capture(ob_graph graph, const command* work);
void free_graph(ob_graph graph); /* which may be NULL */

#endif /* OUTBOARD_DRIVERS_QUEUES_COMMAND_H */
