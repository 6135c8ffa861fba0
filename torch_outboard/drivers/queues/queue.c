/* Queues: a list of commands and a worker thread that runs them in order; graphs of commands. */
#include <common/system.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* ---- Commands ---- */

/* Up to this size the calling thread runs copies and fills if the queue is idle. */
enum { SHORT_BYTES = 16 * 1024 };

static void run_copy(const command* work) {
  char* destination = work->copy.destination;
  const char* source = work->copy.source;
  for (uint64_t row = 0; row < work->copy.rows; row++) {
    memmove(destination, source, work->copy.row_bytes);
    destination += work->copy.destination_pitch;
    source += work->copy.source_pitch;
  }
}

static void run_fill(const command* work) {
  if (work->fill.pattern_bytes == 1) {
    memset(work->fill.destination, work->fill.pattern[0], work->fill.bytes);
    return;
  }
  /* Repeat the pattern in a tile that stays in the cache, then the tile. */
  char tile[4096];
  uint64_t tile_bytes = work->fill.bytes < sizeof tile ? work->fill.bytes : sizeof tile;
  for (uint64_t i = 0; i < tile_bytes; i += work->fill.pattern_bytes) {
    memcpy(tile + i, work->fill.pattern, work->fill.pattern_bytes);
  }
  for (uint64_t i = 0; i < work->fill.bytes; i += tile_bytes) {
    uint64_t rest = work->fill.bytes - i;
    memcpy(work->fill.destination + i, tile, rest < tile_bytes ? rest : tile_bytes);
  }
}

static ob_status run_command(const command* work) {
  switch (work->kind) {
    case COPY:
      run_copy(work);
      break;
    case FILL:
      run_fill(work);
      break;
    case CALLBACK:
      work->callback.function(work->callback.argument);
      break;
    case TASK:
      return work->task->run(work->task);
    case RECORD:
      run_record(work->recording);
      break;
    case WAIT:
      wait_until_happened(work->recording);
      break;
  }
  return OB_OK;
}

static bool is_short(const command* work) {
  switch (work->kind) {
    case COPY:
      return work->copy.rows <= SHORT_BYTES &&
             work->copy.row_bytes <= SHORT_BYTES / work->copy.rows;
    case FILL:
      return work->fill.bytes <= SHORT_BYTES;
    case TASK:
      return work->task->is_short != NULL && work->task->is_short(work->task);
    case RECORD:
      return true;
    case WAIT:
      return has_happened(work->recording);
    case CALLBACK:
      break;
  }
  return false;
}

static void release_command(const command* work) {
  if (work->kind == RECORD || work->kind == WAIT) release(work->recording);
  if (work->kind != TASK) return;
  if (__atomic_sub_fetch(&work->task->references, 1, __ATOMIC_ACQ_REL) == 0) {
    work->task->destroy(work->task);
  }
}

static ob_status append(command** first, command** last, const command* work) {
  command* added = malloc(sizeof *added);
  if (added == NULL) {
    release_command(work);
    return fail(OB_OUT_OF_MEMORY, "The host has no memory for work on a queue.");
  }
  *added = *work;
  added->next = NULL;
  if (*first == NULL) {
    *first = added;
  } else {
    (*last)->next = added;
  }
  *last = added;
  return OB_OK;
}

static void free_commands(command* first) {
  while (first != NULL) {
    command* work = first;
    first = work->next;
    release_command(work);
    free(work);
  }
}

/* ---- Graphs: commands captured from a queue, enqueued again at each launch ---- */

struct ob_graph_t {
  int32_t device;
  command *first, *last;
};

static ob_status capture(ob_graph graph, const command* work) {
  if (work->kind != RECORD && work->kind != WAIT) return append(&graph->first, &graph->last, work);
  release_command(work);
  return fail(OB_UNSUPPORTED, "Events cannot be captured in a graph.");
}

static void free_graph(ob_graph graph) {
  if (graph == NULL) return;
  free_commands(graph->first);
  free(graph);
}

/* ---- Queues ---- */

static const char* driver_name = "";
static int32_t device_count;
static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static ob_queue queues;

void start_queues(const char* name, int32_t devices) {
  driver_name = name;
  device_count = devices;
}

ob_status check_device(int32_t index) {
  if (index >= 0 && index < device_count) return OB_OK;
  return fail(OB_INVALID_ARGUMENT, "Device %d does not exist: the %s driver has %d devices.", index,
              driver_name, device_count);
}

int32_t device_of(ob_queue queue) { return queue->device; }

bool is_capturing(ob_queue queue) {
  pthread_mutex_lock(&queue->lock);
  bool captures = queue->graph != NULL;
  pthread_mutex_unlock(&queue->lock);
  return captures;
}

static bool is_idle(ob_queue queue) {
  return atomic_load(&queue->completed) == atomic_load(&queue->submitted);
}

/* A short busy wait: after a task others mostly follow soon. The caller holds the lock. */
static void look_for_work(ob_queue queue) {
  uint64_t submitted = atomic_load(&queue->submitted);
  pthread_mutex_unlock(&queue->lock);
  spin waiting = {0};
  while (atomic_load(&queue->submitted) == submitted && keep_spinning(&waiting)) {
  }
  pthread_mutex_lock(&queue->lock);
}

/* Stores the first failure. The caller holds the lock, here and below. */
static void note_failure(ob_queue queue) {
  if (atomic_load(&queue->failed)) return;
  snprintf(queue->failure, sizeof queue->failure, "%s", last_error(NULL));
  atomic_store(&queue->failed, true);
}

static ob_status report_failure(ob_queue queue) {
  if (!atomic_exchange(&queue->failed, false)) return OB_OK;
  return fail(OB_ERROR, "%s", queue->failure);
}

static void* run_worker(void* argument) {
  ob_queue queue = argument;
  bool was_task = false;
  pthread_mutex_lock(&queue->lock);
  for (;;) {
    if (queue->first == NULL && was_task && !queue->stopping) look_for_work(queue);
    while (queue->first == NULL && !queue->stopping) {
      pthread_cond_wait(&queue->work_arrived, &queue->lock);
    }
    command* work = queue->first;
    if (work == NULL) break;
    queue->first = work->next;
    was_task = work->kind == TASK;
    ob_status status = OB_OK;
    /* With the lock held: a thread that sees the event complete and then queries the queue must not
     * find it busy with the recording. */
    if (work->kind == RECORD) {
      run_record(work->recording);
    } else if (!was_task || !atomic_load(&queue->failed)) {
      pthread_mutex_unlock(&queue->lock);
      status = run_command(work);
      pthread_mutex_lock(&queue->lock);
    }
    if (status != OB_OK) note_failure(queue);
    release_command(work);
    free(work);
    atomic_fetch_add(&queue->completed, 1);
    if (queue->waiting > 0) pthread_cond_broadcast(&queue->work_done);
  }
  pthread_mutex_unlock(&queue->lock);
  return NULL;
}

/* The worker thread starts with the first command that needs it. */
static ob_status start_worker(ob_queue queue) {
  if (queue->has_worker) return OB_OK;
  char name[32];
  snprintf(name, sizeof name, "outboard_%.20s", driver_name);
  int error = start_thread(&queue->worker, name, run_worker, queue);
  if (error != 0) {
    return fail(OB_ERROR, "The worker thread of a queue could not be started: %s.",
                strerror(error));
  }
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

/* Appends a command for the worker. */
static ob_status submit(ob_queue queue, const command* work) {
  ob_status status = queue->stopping ? fail(OB_ERROR, "The %s driver has ended.", driver_name)
                                     : start_worker(queue);
  if (status != OB_OK) {
    release_command(work);
    return status;
  }
  status = append(&queue->first, &queue->last, work);
  if (status != OB_OK) return status;
  atomic_fetch_add(&queue->submitted, 1);
  pthread_cond_signal(&queue->work_arrived);
  return OB_OK;
}

static ob_status enqueue_locked(ob_queue queue, const command* work) {
  if (queue->graph != NULL) return capture(queue->graph, work);
  if (!is_idle(queue) || !is_short(work)) return submit(queue, work);
  if (run_command(work) != OB_OK) note_failure(queue);
  release_command(work);
  return OB_OK;
}

ob_status enqueue(ob_queue queue, const command* work) {
  pthread_mutex_lock(&queue->lock);
  ob_status status = enqueue_locked(queue, work);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

ob_status enqueue_task(ob_queue queue, task* work) {
  return enqueue(queue, &(command){.kind = TASK, .task = work});
}

static ob_status queue_create(void* context, const ob_queue_description* wanted, ob_queue* queue) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
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

static ob_status queue_query(void* context, ob_queue queue) {
  if (is_idle(queue)) return OB_OK;
  pthread_mutex_lock(&queue->lock);
  ob_status status = is_idle(queue) ? OB_OK : OB_NOT_READY;
  pthread_mutex_unlock(&queue->lock);
  return status;
}

static ob_status queue_synchronize(void* context, ob_queue queue) {
  uint64_t target = atomic_load(&queue->submitted);
  spin waiting = {0};
  while (atomic_load(&queue->completed) < target && keep_spinning(&waiting)) {
  }
  if (atomic_load(&queue->completed) >= target && !atomic_load(&queue->failed)) return OB_OK;
  pthread_mutex_lock(&queue->lock);
  queue->waiting++;
  while (atomic_load(&queue->completed) < target) {
    pthread_cond_wait(&queue->work_done, &queue->lock);
  }
  queue->waiting--;
  ob_status status = report_failure(queue);
  pthread_mutex_unlock(&queue->lock);
  return status;
}

static ob_status queue_destroy(void* context, ob_queue queue) {
  pthread_mutex_lock(&queues_lock);
  ob_queue* link = &queues;
  while (*link != NULL && *link != queue) link = &(*link)->next;
  bool known = *link != NULL;
  if (known) *link = queue->next;
  pthread_mutex_unlock(&queues_lock);
  if (!known) {
    return fail(OB_INVALID_ARGUMENT, "%p is not a queue of the %s driver.", (void*)queue,
                driver_name);
  }
  stop_worker(queue); /* after all its work */
  ob_status status = report_failure(queue);
  free_graph(queue->graph);
  pthread_cond_destroy(&queue->work_done);
  pthread_cond_destroy(&queue->work_arrived);
  pthread_mutex_destroy(&queue->lock);
  free(queue);
  return status;
}

/* Records one event on every busy queue: queues may be created and destroyed during the wait. */
ob_status device_synchronize(void* context, int32_t index) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  recording* mark = create_recording();
  if (mark == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory to wait for a device.");
  pthread_mutex_lock(&queues_lock);
  for (ob_queue queue = queues; queue != NULL && status == OB_OK; queue = queue->next) {
    if (queue->device != index || is_idle(queue)) continue;
    atomic_fetch_add(&mark->missing, 1);
    pthread_mutex_lock(&queue->lock);
    status = submit(queue, &(command){.kind = RECORD, .recording = retain(mark)});
    pthread_mutex_unlock(&queue->lock);
  }
  pthread_mutex_unlock(&queues_lock);
  run_record(mark); /* for the initial `missing` of 1 */
  if (status == OB_OK) wait_until_happened(mark);
  release(mark);
  return status;
}

void stop_queues(void) {
  pthread_mutex_lock(&queues_lock);
  for (ob_queue queue = queues; queue != NULL; queue = queue->next) stop_worker(queue);
  pthread_mutex_unlock(&queues_lock);
}

/* ---- Capture and launch of graphs ---- */

static ob_status graph_begin(void* context, ob_queue queue) {
  ob_graph graph = calloc(1, sizeof *graph);
  if (graph == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a graph.");
  graph->device = queue->device;
  pthread_mutex_lock(&queue->lock);
  bool capturing = queue->graph != NULL;
  if (!capturing) queue->graph = graph;
  pthread_mutex_unlock(&queue->lock);
  if (!capturing) return OB_OK;
  free(graph);
  return fail(OB_INVALID_ARGUMENT, "The queue is already capturing a graph.");
}

static ob_status graph_end(void* context, ob_queue queue, ob_graph* graph) {
  pthread_mutex_lock(&queue->lock);
  ob_graph captured = queue->graph;
  queue->graph = NULL;
  pthread_mutex_unlock(&queue->lock);
  if (captured == NULL) return fail(OB_INVALID_ARGUMENT, "The queue is not capturing a graph.");
  *graph = captured;
  return OB_OK;
}

static ob_status graph_launch(void* context, ob_queue queue, ob_graph graph) {
  if (queue->device != graph->device) {
    return fail(OB_INVALID_ARGUMENT, "A graph of device %d cannot be launched on device %d.",
                graph->device, queue->device);
  }
  ob_status status = OB_OK;
  pthread_mutex_lock(&queue->lock);
  for (command* work = graph->first; work != NULL && status == OB_OK; work = work->next) {
    if (work->kind == TASK) __atomic_add_fetch(&work->task->references, 1, __ATOMIC_RELAXED);
    status = enqueue_locked(queue, work);
  }
  pthread_mutex_unlock(&queue->lock);
  return status;
}

static ob_status graph_release(void* context, ob_graph graph) {
  free_graph(graph);
  return OB_OK;
}

/* ---- Failures for tests ---- */

static ob_status run_failure(task* work) {
  return fail(OB_ERROR, "A test asked for this failure.");
}

static void destroy_failure(task* work) { free(work); }

static ob_status inject_failure(void* context, ob_queue queue) {
  task* work = calloc(1, sizeof *work);
  if (work == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for work on a queue.");
  *work = (task){.references = 1, .run = run_failure, .destroy = destroy_failure};
  return enqueue_task(queue, work);
}

void set_queue_functions(ob_driver* table) {
  table->queue_create = queue_create;
  table->queue_destroy = queue_destroy;
  table->queue_query = queue_query;
  table->queue_synchronize = queue_synchronize;
  table->graph_begin = graph_begin;
  table->graph_end = graph_end;
  table->graph_launch = graph_launch;
  table->graph_release = graph_release;
  table->inject_failure = inject_failure;
  set_event_functions(table);
  set_transfer_functions(table);
}
