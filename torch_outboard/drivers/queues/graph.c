/* Graphs: commands captured from a queue, enqueued again at each launch. */
#include <stdlib.h>

#include "command.h"

struct ob_graph_t {
  int32_t device;
  command *first, *last;
};

ob_status capture(ob_graph graph, const command* work) {
  if (work->kind != RECORD && work->kind != WAIT) return append(&graph->first, &graph->last, work);
  release_command(work);
  return fail(OB_UNSUPPORTED, "Events cannot be captured in a graph.");
}

void free_graph(ob_graph graph) {
  if (graph == NULL) return;
  free_commands(graph->first);
  free(graph);
}

ob_status graph_begin(void* context, ob_queue queue) {
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

ob_status graph_end(void* context, ob_queue queue, ob_graph* graph) {
  pthread_mutex_lock(&queue->lock);
  ob_graph captured = queue->graph;
  queue->graph = NULL;
  pthread_mutex_unlock(&queue->lock);
  if (captured == NULL) return fail(OB_INVALID_ARGUMENT, "The queue is not capturing a graph.");
  *graph = captured;
  return OB_OK;
}

ob_status graph_launch(void* context, ob_queue queue, ob_graph graph) {
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

ob_status graph_release(void* context, ob_graph graph) {
  free_graph(graph);
  return OB_OK;
}
