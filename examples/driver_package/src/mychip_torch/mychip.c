/*
 * The driver of mychip: one card with 1 GiB of memory that the host cannot touch, a copy engine,
 * and a library for matrix products. Memory of the host simulates the card, and each call has done
 * its work when it returns. A driver for a real card replaces malloc, memcpy and the loops by calls
 * of the card's interface; everything else stays the same.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime */
#include <outboard/driver.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Failures: a status, and a sentence that becomes a Python exception ---- */

static _Thread_local char sentence[200];

static ob_status fail(ob_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return status;
}

static const char* last_error(void* context) { return sentence; }

/* ---- The card ---- */

static const uint64_t card_bytes = (uint64_t)1 << 30;
static atomic_uint_fast64_t used_bytes;
static bool has_products;

static ob_status initialize(void* context) {
  const char* products = getenv("OUTBOARD_MYCHIP_PRODUCTS");
  has_products = products == NULL || strcmp(products, "host") != 0;
  return OB_OK;
}

static ob_status device_count(void* context, int32_t* count) {
  *count = 1;
  return OB_OK;
}

static ob_status device_properties(void* context, int32_t device, ob_device_properties* wanted) {
  if (device != 0) return fail(OB_INVALID_ARGUMENT, "There is one mychip, and no %d.", device);
  ob_device_properties card = {
      .name = "mychip 1000",
      .vendor = "Chips of mine",
      .driver_version = "1.0",
      .kind = OB_DEVICE_ACCELERATOR,
      .host_access = OB_HOST_ACCESS_NONE,
      .addressing = OB_ADDRESSING_POINTER,
      .total_memory = card_bytes,
      .alignment = 64,
      .dtypes = OB_DTYPE_FLOAT32,
  };
  card.struct_size = wanted->struct_size;
  memcpy(wanted, &card, card.struct_size < sizeof card ? card.struct_size : sizeof card);
  return OB_OK;
}

/* ---- Memory: the highest bit but one marks addresses of the card. A line before each allocation
 *      holds its size. ---- */

static const uint64_t on_card = (uint64_t)1 << 62;
enum { LINE = 64 };

static void* at(ob_address address) { return (void*)(uintptr_t)(address & ~on_card); }

static ob_status allocate(void* context, const ob_allocation* wanted, ob_address* address) {
  if (wanted->device != 0 || wanted->bytes == 0) {
    return fail(OB_INVALID_ARGUMENT, "No memory of this size, or on this device.");
  }
  if (wanted->bytes > card_bytes) return fail(OB_OUT_OF_MEMORY, "The card has 1 GiB in all.");
  const uint64_t bytes = (wanted->bytes + LINE - 1) / LINE * LINE;
  if (atomic_fetch_add(&used_bytes, bytes) + bytes > card_bytes) {
    atomic_fetch_sub(&used_bytes, bytes);
    return fail(OB_OUT_OF_MEMORY, "The card has no %llu bytes left.", (unsigned long long)bytes);
  }
  char* line = aligned_alloc(LINE, LINE + bytes);
  if (line == NULL) {
    atomic_fetch_sub(&used_bytes, bytes);
    return fail(OB_OUT_OF_MEMORY, "The host has no memory to play the card's.");
  }
  memcpy(line, &bytes, sizeof bytes);
  *address = (uint64_t)(uintptr_t)(line + LINE) | on_card;
  return OB_OK;
}

static ob_status deallocate(void* context, int32_t device, ob_address address) {
  if (device != 0) return fail(OB_INVALID_ARGUMENT, "There is one mychip, and no %d.", device);
  char* line = (char*)at(address) - LINE;
  uint64_t bytes;
  memcpy(&bytes, line, sizeof bytes);
  atomic_fetch_sub(&used_bytes, bytes);
  free(line);
  return OB_OK;
}

static ob_status memory_info(void* context, int32_t device, uint64_t* free_bytes,
                             uint64_t* total_bytes) {
  if (device != 0) return fail(OB_INVALID_ARGUMENT, "There is one mychip, and no %d.", device);
  *total_bytes = card_bytes;
  *free_bytes = card_bytes - atomic_load(&used_bytes);
  return OB_OK;
}

/* ---- Queues, without pending work ---- */

struct ob_queue_t {
  int32_t device;
};

static ob_status queue_create(void* context, const ob_queue_description* wanted, ob_queue* queue) {
  if (wanted->device != 0 || wanted->priority != 0) {
    return fail(OB_INVALID_ARGUMENT, "Queues are on device 0, and have priority 0.");
  }
  *queue = calloc(1, sizeof **queue);
  return *queue != NULL ? OB_OK : fail(OB_OUT_OF_MEMORY, "The host has no memory for a queue.");
}

static ob_status queue_destroy(void* context, ob_queue queue) {
  free(queue);
  return OB_OK;
}

static ob_status queue_query(void* context, ob_queue queue) { return OB_OK; }
static ob_status queue_synchronize(void* context, ob_queue queue) { return OB_OK; }

/* ---- Events, which have happened when they are recorded ---- */

struct ob_event_t {
  bool timing, recorded;
  struct timespec time;
};

static ob_status event_create(void* context, const ob_event_description* wanted, ob_event* event) {
  if (wanted->device != 0) return fail(OB_INVALID_ARGUMENT, "Events are on device 0.");
  *event = calloc(1, sizeof **event);
  if (*event == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for an event.");
  (*event)->timing = (wanted->flags & OB_EVENT_TIMING) != 0;
  return OB_OK;
}

static ob_status event_destroy(void* context, ob_event event) {
  free(event);
  return OB_OK;
}

static ob_status event_record(void* context, ob_event event, ob_queue queue) {
  clock_gettime(CLOCK_MONOTONIC, &event->time);
  event->recorded = true;
  return OB_OK;
}

static ob_status event_wait(void* context, ob_queue queue, ob_event event) { return OB_OK; }
static ob_status event_query(void* context, ob_event event) { return OB_OK; }
static ob_status event_synchronize(void* context, ob_event event) { return OB_OK; }

static ob_status event_elapsed(void* context, ob_event start, ob_event end, double* milliseconds) {
  if (!start->timing || !end->timing || !start->recorded || !end->recorded) {
    return fail(OB_INVALID_ARGUMENT, "Events with times have to be recorded, both.");
  }
  *milliseconds = 1e3 * difftime(end->time.tv_sec, start->time.tv_sec) +
                  1e-6 * (double)(end->time.tv_nsec - start->time.tv_nsec);
  return OB_OK;
}

/* ---- Transfers: the queue is ignored, since its work is done ---- */

static ob_status move(void* to, const void* from, uint64_t bytes) {
  if (bytes == 0) return fail(OB_INVALID_ARGUMENT, "A copy of nothing.");
  memcpy(to, from, bytes);
  return OB_OK;
}

static ob_status copy_host_to_device(void* context, ob_queue queue, ob_address to, const void* from,
                                     uint64_t bytes) {
  return move(at(to), from, bytes);
}

static ob_status copy_device_to_host(void* context, ob_queue queue, void* to, ob_address from,
                                     uint64_t bytes) {
  return move(to, at(from), bytes);
}

static ob_status copy_device_to_device(void* context, ob_queue queue, ob_address to,
                                       ob_address from, uint64_t bytes) {
  return move(at(to), at(from), bytes);
}

static ob_status fill(void* context, ob_queue queue, ob_address to, const void* pattern,
                      uint32_t pattern_bytes, uint64_t bytes) {
  const bool known = pattern_bytes == 1 || pattern_bytes == 2 || pattern_bytes == 4 ||
                     pattern_bytes == 8 || pattern_bytes == 16;
  if (!known || bytes == 0 || bytes % pattern_bytes != 0) {
    return fail(OB_INVALID_ARGUMENT, "%u bytes do not fill %llu.", pattern_bytes,
                (unsigned long long)bytes);
  }
  for (uint64_t i = 0; i < bytes; i += pattern_bytes) {
    memcpy((char*)at(to) + i, pattern, pattern_bytes);
  }
  return OB_OK;
}

/* ---- The card's library ---- */

/* The order of a matrix for a BLAS: rows one after the other ('N') or columns ('T'), `leading`
 * elements from one to the next. 0 for any other. */
static char order_of(const ob_tensor* matrix, int64_t* leading) {
  const bool by_rows = matrix->sizes[2] == 1 || matrix->strides[2] == 1;
  const bool by_columns = matrix->sizes[1] == 1 || matrix->strides[1] == 1;
  *leading = by_rows ? matrix->strides[1] : matrix->strides[2];
  return by_rows ? 'N' : by_columns ? 'T' : 0;
}

/* out = alpha a b + beta out, in each of `batch` matrices. Without beta `out` is not read. */
static ob_status my_batched_sgemm(ob_queue queue, char a_order, char b_order, int64_t batch,
                                  int64_t rows, int64_t columns, int64_t depth, float alpha,
                                  ob_address a, int64_t a_batch, int64_t a_leading, ob_address b,
                                  int64_t b_batch, int64_t b_leading, float beta, ob_address out,
                                  int64_t out_batch, int64_t out_leading) {
  for (int64_t n = 0; n < batch; ++n) {
    const float* left = (const float*)at(a) + n * a_batch;
    const float* right = (const float*)at(b) + n * b_batch;
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < depth; ++k) {
          sum += (double)left[a_order == 'N' ? i * a_leading + k : k * a_leading + i] *
                 (double)right[b_order == 'N' ? k * b_leading + j : j * b_leading + k];
        }
        float* result = (float*)at(out) + n * out_batch + i * out_leading + j;
        *result = alpha * (float)sum + (beta != 0 ? beta * *result : 0);
      }
    }
  }
  return OB_OK;
}

static ob_status matrix_product(void* context, ob_queue queue, const ob_matrix_product* d) {
  const ob_tensor *a = d->a, *b = d->b, *out = d->out;
  int64_t a_leading, b_leading, out_leading;
  const char a_order = order_of(a, &a_leading), b_order = order_of(b, &b_leading);
  const bool in_place = d->added != NULL && d->added->data == out->data;
  if (!has_products || a->dtype != OB_DTYPE_FLOAT32 || d->bias != NULL ||
      d->activation != OB_ACTIVATION_NONE || (d->added != NULL && !in_place) ||
      (d->flags & ~(OB_LIBRARY_REDUCED_PRECISION | OB_LIBRARY_DETERMINISTIC)) != 0 ||
      a_order == 0 || b_order == 0 || order_of(out, &out_leading) != 'N') {
    return fail(OB_UNSUPPORTED, "The library multiplies dense matrices of float32.");
  }
  if (d->workspace_query != NULL) {
    *d->workspace_query = 0;
    return OB_OK;
  }
  return my_batched_sgemm(queue, a_order, b_order, out->sizes[0], out->sizes[1], out->sizes[2],
                          a->sizes[2], (float)d->alpha[0], a->data, a->strides[0], a_leading,
                          b->data, b->strides[0], b_leading, in_place ? (float)d->beta[0] : 0,
                          out->data, out->strides[0], out_leading);
}

/* ---- The table ---- */

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static const ob_driver table = {
      .major = OB_VERSION_MAJOR,
      .minor = OB_VERSION_MINOR,
      .struct_size = sizeof(ob_driver),
      .name = "mychip",
      .last_error = last_error,
      .initialize = initialize,
      .device_count = device_count,
      .device_properties = device_properties,
      .allocate = allocate,
      .deallocate = deallocate,
      .memory_info = memory_info,
      .queue_create = queue_create,
      .queue_destroy = queue_destroy,
      .queue_query = queue_query,
      .queue_synchronize = queue_synchronize,
      .event_create = event_create,
      .event_destroy = event_destroy,
      .event_record = event_record,
      .event_wait = event_wait,
      .event_query = event_query,
      .event_synchronize = event_synchronize,
      .event_elapsed = event_elapsed,
      .copy_host_to_device = copy_host_to_device,
      .copy_device_to_host = copy_device_to_host,
      .copy_device_to_device = copy_device_to_device,
      .fill = fill,
      .matrix_product = matrix_product,
  };
  return &table;
}
