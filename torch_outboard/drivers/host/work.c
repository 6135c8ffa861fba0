/* Commands and recordings. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* Copies and fills up to this size are done by the calling thread if the queue is idle. */
enum { SHORT_BYTES = 16 * 1024 };

recording* create_recording(void) {
  recording* created = malloc(sizeof *created);
  if (created == NULL) return NULL;
  atomic_init(&created->references, 1);
  atomic_init(&created->missing, 1);
  pthread_mutex_init(&created->lock, NULL);
  pthread_cond_init(&created->changed, NULL);
  return created;
}

recording* retain(recording* kept) {
  if (kept != NULL) atomic_fetch_add(&kept->references, 1);
  return kept;
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

void run_record(recording* recorded) {
  pthread_mutex_lock(&recorded->lock);
  clock_gettime(CLOCK_MONOTONIC, &recorded->time);
  atomic_fetch_sub(&recorded->missing, 1);
  pthread_cond_broadcast(&recorded->changed);
  pthread_mutex_unlock(&recorded->lock);
}

void run_command(const command* work) {
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
    case LAUNCH:
      run_launch(work->launched);
      break;
    case RECORD:
      run_record(work->recording);
      break;
    case WAIT:
      wait_until_happened(work->recording);
      break;
  }
}

bool is_short(const command* work) {
  switch (work->kind) {
    case COPY:
      return work->copy.rows <= SHORT_BYTES &&
             work->copy.row_bytes <= SHORT_BYTES / work->copy.rows;
    case FILL:
      return work->fill.bytes <= SHORT_BYTES;
    case LAUNCH:
      return is_short_launch(work->launched);
    case RECORD:
      return true;
    case WAIT:
      return has_happened(work->recording);
    case CALLBACK:
      break;
  }
  return false;
}

void free_command(command* work) {
  if (work->kind == RECORD || work->kind == WAIT) release(work->recording);
  if (work->kind == LAUNCH) release_launch(work->launched);
  free(work);
}

command* new_command(command content) {
  command* created = malloc(sizeof *created);
  if (created != NULL) {
    *created = content;
  } else if (content.kind == RECORD || content.kind == WAIT) {
    release(content.recording);
  } else if (content.kind == LAUNCH) {
    release_launch(content.launched);
  }
  return created;
}
