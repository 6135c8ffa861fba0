/* Commands, and what running one does. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* Copies and fills up to this size are done by the calling thread if the queue is idle. */
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

ob_status run_command(const command* work) {
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

bool is_short(const command* work) {
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

void release_command(const command* work) {
  if (work->kind == RECORD || work->kind == WAIT) release(work->recording);
  if (work->kind != TASK) return;
  if (__atomic_sub_fetch(&work->task->references, 1, __ATOMIC_ACQ_REL) == 0) {
    work->task->destroy(work->task);
  }
}

ob_status append(command** first, command** last, const command* work) {
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

void free_commands(command* first) {
  while (first != NULL) {
    command* work = first;
    first = work->next;
    release_command(work);
    free(work);
  }
}
