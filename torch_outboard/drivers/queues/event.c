/* Events. An event points to its latest recording. */
#include <common/system.h>
#include <stdlib.h>

#include "command.h"

struct ob_event_t {
  int32_t device;
  uint32_t flags;
  pthread_mutex_t lock;
  recording* latest; /* NULL: never recorded */
};

recording* create_recording(void) {
  recording* created = malloc(sizeof *created);
  if (created == NULL) return NULL;
  atomic_init(&created->references, 1);
  atomic_init(&created->missing, 1);
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->changed, NULL);
  return created;
}

recording* retain(recording* retained) {
  if (retained != NULL) atomic_fetch_add(&retained->references, 1);
  return retained;
}

void release(recording* released) {
  if (released == NULL || atomic_fetch_sub(&released->references, 1) != 1) return;
  pthread_cond_destroy(&released->changed);
  pthread_mutex_destroy(&released->lock);
  free(released);
}

bool has_happened(recording* asked) { return atomic_load(&asked->missing) == 0; }

void wait_until_happened(recording* awaited) {
  if (has_happened(awaited)) return;
  pthread_mutex_lock(&awaited->lock);
  while (!has_happened(awaited)) pthread_cond_wait(&awaited->changed, &awaited->lock);
  pthread_mutex_unlock(&awaited->lock);
}

void run_record(recording* recorded) {
  pthread_mutex_lock(&recorded->lock);
  recorded->time = nanoseconds();
  atomic_fetch_sub(&recorded->missing, 1);
  pthread_cond_broadcast(&recorded->changed);
  pthread_mutex_unlock(&recorded->lock);
}

/* The caller gets a reference. */
static recording* latest_recording(ob_event event) {
  pthread_mutex_lock(&event->lock);
  recording* latest = retain(event->latest);
  pthread_mutex_unlock(&event->lock);
  return latest;
}

static ob_status event_create(void* context, const ob_event_description* wanted, ob_event* event) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  ob_event created = calloc(1, sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for an event.");
  created->device = wanted->device;
  created->flags = wanted->flags;
  pthread_mutex_init(&created->lock, NULL);
  *event = created;
  return OB_OK;
}

static ob_status event_destroy(void* context, ob_event event) {
  release(event->latest);
  pthread_mutex_destroy(&event->lock);
  free(event);
  return OB_OK;
}

static ob_status event_record(void* context, ob_event event, ob_queue queue) {
  if (event->device != queue->device) {
    return fail(OB_INVALID_ARGUMENT, "An event of device %d cannot be recorded on device %d.",
                event->device, queue->device);
  }
  recording* recorded = create_recording();
  if (recorded == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for an event.");
  ob_status status = enqueue(queue, &(command){.kind = RECORD, .recording = retain(recorded)});
  if (status != OB_OK) {
    release(recorded);
    return status;
  }
  pthread_mutex_lock(&event->lock);
  recording* earlier = event->latest;
  event->latest = recorded;
  pthread_mutex_unlock(&event->lock);
  release(earlier);
  return OB_OK;
}

static ob_status event_wait(void* context, ob_queue queue, ob_event event) {
  recording* awaited = latest_recording(event);
  if (awaited == NULL) return OB_OK;
  return enqueue(queue, &(command){.kind = WAIT, .recording = awaited});
}

static ob_status event_query(void* context, ob_event event) {
  recording* asked = latest_recording(event);
  ob_status status = asked == NULL || has_happened(asked) ? OB_OK : OB_NOT_READY;
  release(asked);
  return status;
}

static ob_status event_synchronize(void* context, ob_event event) {
  recording* awaited = latest_recording(event);
  if (awaited != NULL) wait_until_happened(awaited);
  release(awaited);
  return OB_OK;
}

static ob_status event_time(void* context, ob_event event, uint64_t* nanoseconds) {
  if ((event->flags & OB_EVENT_TIMING) == 0) {
    return fail(OB_INVALID_ARGUMENT, "The event must be created with timing enabled.");
  }
  recording* latest = latest_recording(event);
  ob_status status = OB_OK;
  if (latest == NULL) {
    status = fail(OB_INVALID_ARGUMENT, "The event must have been recorded.");
  } else if (!has_happened(latest)) {
    status = OB_NOT_READY;
  } else {
    *nanoseconds = latest->time;
  }
  release(latest);
  return status;
}

static ob_status event_elapsed(void* context, ob_event start, ob_event end, double* milliseconds) {
  if ((start->flags & end->flags & OB_EVENT_TIMING) == 0) {
    return fail(OB_INVALID_ARGUMENT, "Both events must be created with timing enabled.");
  }
  if (start->device != end->device) {
    return fail(OB_INVALID_ARGUMENT, "The events belong to devices %d and %d.", start->device,
                end->device);
  }
  recording *from = latest_recording(start), *to = latest_recording(end);
  ob_status status = OB_OK;
  if (from == NULL || to == NULL) {
    status = fail(OB_INVALID_ARGUMENT, "Both events must have been recorded.");
  } else if (!has_happened(from) || !has_happened(to)) {
    status = OB_NOT_READY;
  } else {
    *milliseconds = 1e-6 * (double)(int64_t)(to->time - from->time);
  }
  release(from);
  release(to);
  return status;
}

void set_event_functions(ob_driver* table) {
  table->event_create = event_create;
  table->event_destroy = event_destroy;
  table->event_record = event_record;
  table->event_wait = event_wait;
  table->event_query = event_query;
  table->event_synchronize = event_synchronize;
  table->event_elapsed = event_elapsed;
  table->event_time = event_time;
}
