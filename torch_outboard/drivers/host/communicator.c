/*
 * Communicators: ranks of several processes, or of one, that share memory.
 *
 * The memory is an unnamed file. An id tells the other processes to open it as
 * /proc/PROCESS/fd/NUMBER, so nothing is left behind however processes end. Each rank holds a lock
 * on one byte of the file. The system releases it when the process ends, which the other ranks
 * detect.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host.h"

/* Longest sleep of a waiting rank before it checks for ended ranks. */
enum { SLEEP_NANOSECONDS = 10000000 };

/* The data of an id. */
typedef struct id_data {
  unsigned char key[16]; /* also the first bytes of the file */
  int64_t process;
  int32_t file;
} id_data;

/* ---- Failures ---- */

void fail_communicator(ob_communicator communicator, const char* format, ...) {
  pthread_mutex_lock(&communicator->lock);
  if (!atomic_load(&communicator->failed)) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(communicator->message, sizeof communicator->message, format, arguments);
    va_end(arguments);
    atomic_store(&communicator->failed, true);
  }
  pthread_mutex_unlock(&communicator->lock);
  uint32_t none = 0;
  atomic_compare_exchange_strong(&communicator->shared->ended, &none, communicator->rank + 1);
  ring(communicator);
}

ob_status communicator_error(void* context, ob_communicator communicator) {
  if (!atomic_load(&communicator->failed)) return OB_OK;
  return fail(OB_ERROR, "%s", communicator->message);
}

ob_status communicator_abort(void* context, ob_communicator communicator) {
  fail_communicator(communicator, "The communicator was aborted on rank %u.", communicator->rank);
  return OB_OK;
}

/* ---- Waiting ---- */

void ring(ob_communicator communicator) {
  shared_file* shared = communicator->shared;
  atomic_fetch_add(&shared->bell, 1);
  if (atomic_load(&shared->sleepers) == 0) return;
  syscall(SYS_futex, &shared->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static bool has_ended(ob_communicator communicator, uint32_t rank) {
  if (rank == communicator->rank || !atomic_load(&communicator->shared->ranks[rank].joined)) {
    return false;
  }
  struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
  return fcntl(communicator->file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

bool goes_on(ob_communicator communicator, const char* work) {
  if (atomic_load(&communicator->failed)) return false;
  uint32_t ended = atomic_load(&communicator->shared->ended);
  if (ended == 0) return true;
  fail_communicator(communicator, "Rank %u has ended the communicator before %s.", ended - 1, work);
  return false;
}

bool keep_waiting(patience* waiting, uint32_t rank) {
  ob_communicator communicator = waiting->communicator;
  shared_file* shared = communicator->shared;
  if (!goes_on(communicator, waiting->work)) return false;
  uint32_t bell = atomic_load(&shared->bell);
  if (bell != waiting->bell) { /* a change: the caller checks before it sleeps */
    *waiting = (patience){.communicator = communicator,
                          .work = waiting->work,
                          .timeout = waiting->timeout,
                          .start = waiting->start,
                          .bell = bell};
    return true;
  }
  if (keep_spinning(&waiting->spinning)) return true;
  if (waiting->start == 0) waiting->start = nanoseconds();
  atomic_fetch_add(&shared->sleepers, 1);
  struct timespec most = {.tv_nsec = SLEEP_NANOSECONDS};
  long slept = syscall(SYS_futex, &shared->bell, FUTEX_WAIT, bell, &most, NULL, 0);
  bool woken = slept == 0 || errno != ETIMEDOUT;
  atomic_fetch_sub(&shared->sleepers, 1);
  if (woken) return true;
  if (waiting->looked_again) {
    fail_communicator(communicator, "Rank %u has ended before %s.", rank, waiting->work);
    return false;
  }
  if (has_ended(communicator,
                rank)) { /* it may have done its part before: the caller checks again */
    waiting->looked_again = true;
    return true;
  }
  if (waiting->timeout != 0 && nanoseconds() - waiting->start > waiting->timeout * 1000000) {
    fail_communicator(communicator, "Rank %u did not call %s within %llu ms.", rank, waiting->work,
                      (unsigned long long)waiting->timeout);
    return false;
  }
  return true;
}

/* ---- Life ---- */

static size_t file_bytes(uint32_t ranks) {
  return sizeof(shared_file) + (size_t)ranks * 2 * SLOT_BYTES +
         (size_t)ranks * ranks * sizeof(message_pipe);
}

char* slot_of(ob_communicator communicator, uint32_t rank) {
  char* slots = (char*)(communicator->shared + 1);
  return slots + ((size_t)rank * 2 + communicator->steps % 2) * SLOT_BYTES;
}

message_pipe* pipe_between(ob_communicator communicator, uint32_t from, uint32_t to) {
  char* slots = (char*)(communicator->shared + 1);
  message_pipe* pipes = (message_pipe*)(slots + (size_t)communicator->ranks * 2 * SLOT_BYTES);
  return &pipes[(size_t)from * communicator->ranks + to];
}

void release_communicator(ob_communicator released) {
  if (atomic_fetch_sub(&released->references, 1) != 1) return;
  if (released->shared != NULL) munmap(released->shared, file_bytes(released->ranks));
  if (released->file >= 0) close(released->file);
  if (released->original >= 0) close(released->original);
  pthread_mutex_destroy(&released->lock);
  free(released);
}

ob_status communicator_id(void* context, ob_communicator_id* id) {
  id_data here = {.process = getpid()};
  here.file = memfd_create("outboard-communicator", MFD_CLOEXEC);
  bool made = here.file >= 0 && getrandom(here.key, sizeof here.key, 0) == sizeof here.key &&
              pwrite(here.file, here.key, sizeof here.key, 0) == sizeof here.key;
  if (!made) {
    if (here.file >= 0) close(here.file);
    return fail(OB_ERROR, "Memory for a communicator cannot be made: %s.", strerror(errno));
  }
  memset(id->data, 0, sizeof id->data);
  memcpy(id->data, &here, sizeof here);
  return OB_OK;
}

/* Opens the file of an id, also in the process that created it: each rank needs a lock of its own.
 */
static ob_status join(ob_communicator communicator, const id_data* where) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)where->process, where->file);
  unsigned char key[sizeof where->key];
  communicator->file = open(path, O_RDWR | O_CLOEXEC);
  if (communicator->file < 0 || pread(communicator->file, key, sizeof key, 0) != sizeof key ||
      memcmp(key, where->key, sizeof key) != 0) {
    return fail(OB_UNSUPPORTED,
                "The process that made the communicator cannot be reached: the host driver "
                "communicates between processes of one machine and one user.");
  }
  struct flock lock = {
      .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = communicator->rank, .l_len = 1};
  if (fcntl(communicator->file, F_OFD_SETLK, &lock) != 0) {
    return fail(OB_INVALID_ARGUMENT, "Rank %u of the communicator is taken.", communicator->rank);
  }
  size_t bytes = file_bytes(communicator->ranks);
  void* mapped = MAP_FAILED;
  if (ftruncate(communicator->file, (off_t)bytes) == 0) {
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, communicator->file, 0);
  }
  if (mapped == MAP_FAILED) {
    return fail(OB_OUT_OF_MEMORY, "%zu bytes of shared memory cannot be mapped: %s.", bytes,
                strerror(errno));
  }
  communicator->shared = mapped;
  atomic_store(&communicator->shared->ranks[communicator->rank].joined, true);
  return OB_OK;
}

ob_status communicator_create(void* context, const ob_communicator_description* wanted,
                              ob_communicator* communicator) {
  ob_status status = check_device(wanted->device);
  if (status != OB_OK) return status;
  if (wanted->ranks == 0 || wanted->rank >= wanted->ranks || wanted->ranks > MAX_RANKS) {
    return fail(OB_INVALID_ARGUMENT, "Rank %u of %u: there are 1 to %d ranks, from 0 on.",
                wanted->rank, wanted->ranks, MAX_RANKS);
  }
  ob_communicator created = calloc(1, sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a communicator.");
  id_data where;
  memcpy(&where, wanted->id->data, sizeof where);
  created->device = wanted->device;
  created->rank = wanted->rank;
  created->ranks = wanted->ranks;
  created->file = -1;
  created->original = where.process == getpid() && wanted->rank == 0 ? where.file : -1;
  atomic_init(&created->references, 1);
  pthread_mutex_init(&created->lock, NULL);
  status = join(created, &where);
  if (status == OB_OK) {
    *communicator = created;
  } else {
    release_communicator(created);
  }
  return status;
}

ob_status communicator_destroy(void* context, ob_communicator communicator) {
  if (atomic_load(&communicator->references) > 1) communicator_abort(context, communicator);
  release_communicator(communicator);
  return OB_OK;
}
