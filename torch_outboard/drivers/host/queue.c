/* Queues: a list of commands and a worker thread that runs them in order. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static ob_queue queues;

static bool is_idle(ob_queue queue) {
  return atomic_load(&queue->completed) == atomic_load(&queue->submitted);
}

/* Behind a launch there are mostly others, soon. The caller holds the lock. */
static void look_for_work(ob_queue queue) {
  uint64_t submitted = atomic_load(&queue->submitted);
  pthread_mutex_unlock(&queue->lock);
  spin waiting = {0};
  while (atomic_load(&queue->submitted) == submitted && keep_spinning(&waiting)) {
  }
  pthread_mutex_lock(&queue->lock);
}

static void* run_worker(void* argument) {
  ob_queue queue = argument;
  bool launched = false;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    if (queue->first == NULL && launched && !queue->stopping) look_for_work(queue);
    while (queue->first == NULL && !queue->stopping) {
      pthread_cond_wait(&queue->work_arrived, &queue->lock);
    }
    command* work = queue->first;
    if (work == NULL) break;
    queue->first = work->next;
    /* A recording happens with the lock held: who sees that the event has happened and then asks
     * the queue must not be told that it is still busy recording. */
    bool unlocks = work->kind != RECORD;
    launched = work->kind == LAUNCH;
    if (unlocks) pthread_mutex_unlock(&queue->lock);
    run_command(work);
    if (unlocks) pthread_mutex_lock(&queue->lock);
    free_command(work);
    atomic_fetch_add(&queue->completed, 1);
    if (queue->waiting > 0) pthread_cond_broadcast(&queue->work_done);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* A worker starts with the first command that needs one. It blocks all signals: they belong to
 * threads of the application. */
static ob_status start_worker(ob_queue queue) {
  if (queue->has_worker) return OB_OK;
  sigset_t all, previous;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &previous);
  int error = pthread_create(&queue->worker, NULL, run_worker, queue);
  pthread_sigmask(SIG_SETMASK, &previous, NULL);
  if (error != 0) {
    return fail(OB_ERROR, "The worker thread of a queue could not be started: %s.",
                strerror(error));
  }
  pthread_setname_np(queue->worker, "outboard_host");
  queue->has_worker = true;
  return OB_OK;
}

static void stop_worker(ob_queue queue) {
  pthread_mutex_lock(&queue->lock);
  bool joins = queue->has_worker && !queue->stopping;
  queue->stopping = true;
  pthread_cond_signal(&queue->work_arrived);
  pthread_mutex_unlock(&queue->lock);
  if (joins) pthread_join(queue->worker, NULL);
}

void append(command** first, command** last, command* appended) {
  if (*first == NULL) {
    *first = appended;
  } else {
    (*last)->next = appended;
  }
  *last = appended;
}

/* Gives a command to the worker and owns it whatever happens. The caller holds the queue's lock. */
static ob_status submit(ob_queue queue, command* work) {
  if (work == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for work on a queue.");
  ob_status status = OB_OK;
  if (queue->stopping) status = fail(OB_ERROR, "The host driver has ended.");
  if (status == OB_OK) status = start_worker(queue);
  if (status != OB_OK) {
    free_command(work);
    return status;
  }
  append(&queue->first, &queue->last, work);
  atomic_fetch_add(&queue->submitted, 1);
  pthread_cond_signal(&queue->work_arrived);
  return OB_OK;
}

ob_status enqueue_locked(ob_queue queue, command* work) {
  if (work == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for work on a queue.");
  if (queue->graph != NULL) return capture(queue->graph, work);
  if (!is_idle(queue) || !is_short(work)) return submit(queue, work);
  run_command(work);
  free_command(work);
  return OB_OK;
}

ob_status enqueue(ob_queue queue, command* work) {
  pthread_mutex_lock(&queue->lock);
  ob_status status = enqueue_locked(queue, work);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

ob_status queue_create(void* context, const ob_queue_description* wanted, ob_queue* queue) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  /* Raising a thread's priority takes privileges that programs rarely have, so the two priorities
   * are accepted and treated alike. */
  if (wanted->priority < GREATEST_PRIORITY || wanted->priority > LEAST_PRIORITY) {
    return fail(OB_INVALID_ARGUMENT, "Priority %d is not between %d and %d.", wanted->priority,
                GREATEST_PRIORITY, LEAST_PRIORITY);
  }
  ob_queue created = calloc(1, sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a queue.");
  created->device = wanted->device;
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->work_arrived, NULL);
  pthread_cond_init(&created->work_done, NULL);
  pthread_mutex_lock(&queues_lock);
  created->next = queues;
  queues = created;
  pthread_mutex_unlock(&queues_lock);
  *queue = created;
  return OB_OK;
}

ob_status queue_query(void* context, ob_queue queue) {
  if (is_idle(queue)) return OB_OK;
  pthread_mutex_lock(&queue->lock);
  ob_status status = is_idle(queue) ? OB_OK : OB_NOT_READY;
  pthread_mutex_unlock(&queue->lock);
  return status;
}

ob_status queue_synchronize(void* context, ob_queue queue) {
  uint64_t target = atomic_load(&queue->submitted);
  spin waiting = {0};
  while (atomic_load(&queue->completed) < target && keep_spinning(&waiting)) {
  }
  if (atomic_load(&queue->completed) >= target) return OB_OK;
  pthread_mutex_lock(&queue->lock);
  queue->waiting++;
  while (atomic_load(&queue->completed) < target) {
    pthread_cond_wait(&queue->work_done, &queue->lock);
  }
  queue->waiting--;
  pthread_mutex_unlock(&queue->lock);
  return OB_OK;
}

ob_status queue_destroy(void* context, ob_queue queue) {
  pthread_mutex_lock(&queues_lock);
  ob_queue* link = &queues;
  while (*link != NULL && *link != queue) link = &(*link)->next;
  bool known = *link != NULL;
  if (known) *link = queue->next;
  pthread_mutex_unlock(&queues_lock);
  if (!known) {
    return fail(OB_INVALID_ARGUMENT, "%p is not a queue of the host driver.", (void*)queue);
  }
  stop_worker(queue); /* which does all its work before */
  free_graph(queue->graph);
  pthread_cond_destroy(&queue->work_done);
  pthread_cond_destroy(&queue->work_arrived);
  pthread_mutex_destroy(&queue->lock);
  free(queue);
  return OB_OK;
}

/* One mark at the end of every busy queue: while we wait, queues may come and go. */
ob_status device_synchronize(void* context, int32_t index) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  recording* mark = create_recording();
  if (mark == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory to wait for a device.");
  pthread_mutex_lock(&queues_lock);
  for (ob_queue queue = queues; queue != NULL && status == OB_OK; queue = queue->next) {
    if (queue->device != index || is_idle(queue)) continue;
    atomic_fetch_add(&mark->missing, 1);
    command* work = new_command((command){.kind = RECORD, .recording = retain(mark)});
    pthread_mutex_lock(&queue->lock);
    status = submit(queue, work);
    pthread_mutex_unlock(&queue->lock);
  }
  pthread_mutex_unlock(&queues_lock);
  run_record(mark); /* the one that a new recording misses */
  if (status == OB_OK) wait_until_happened(mark);
  release(mark);
  return status;
}

void stop_all_workers(void) {
  pthread_mutex_lock(&queues_lock);
  for (ob_queue queue = queues; queue != NULL; queue = queue->next) stop_worker(queue);
  pthread_mutex_unlock(&queues_lock);
}
