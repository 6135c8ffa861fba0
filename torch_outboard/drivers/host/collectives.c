/*
 * Collectives of the ranks of a communicator, and messages between two of them.
 *
 * A collective is a sequence of steps. In a step each rank copies a part of its input to its slot,
 * waits for all ranks, and reads the slots of all. Every rank reduces by itself in the order of
 * ranks, so all have the same bits. A rank has two slots and alternates: while it fills one, others
 * may still read the other. A message passes through the ring buffer from rank to rank.
 */
#include <stdlib.h>
#include <string.h>

#include "host.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3") /* else loops of unknown length are not vectorized */
#endif

/* ---- Reductions of arrays ---- */

static float from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint32_t to_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float from_bfloat16(uint16_t bits) { return from_bits((uint32_t)bits << 16); }

/* Rounds to nearest, ties to even. NaN stays NaN. */
static uint16_t to_bfloat16(float value) {
  uint32_t wide = to_bits(value);
  uint32_t rounded = (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
  return (uint16_t)(value != value ? (wide >> 16) | 0x40 : rounded);
}

/* Without branches, so that loops are vectorized. */
static float from_float16(uint16_t bits) {
  uint32_t rest = bits & 0x7fff, sign = (uint32_t)(bits & 0x8000) << 16;
  uint32_t normal = (rest << 13) + (112u << 23), special = (rest << 13) | 0x7f800000;
  uint32_t subnormal = to_bits((float)(int32_t)rest * 0x1p-24f);
  return from_bits(sign | (rest >= 0x7c00 ? special : rest >= 0x400 ? normal : subnormal));
}

static uint16_t to_float16(float value) {
  uint32_t wide = to_bits(value), sign = (wide >> 16) & 0x8000, rest = wide & 0x7fffffff;
  /* Rounded to ten mantissa bits; a carry goes into the exponent. */
  uint32_t normal = (rest - (112u << 23) + 0xfff + ((rest >> 13) & 1)) >> 13;
  /* The last bit of a float32 in [0.5, 1) is worth that of a subnormal float16. */
  uint32_t subnormal = to_bits(from_bits(rest) + 0.5f) - to_bits(0.5f);
  uint32_t finite = rest < 0x38800000 ? subnormal : rest < 0x477ff000 ? normal : 0x7c00;
  return (uint16_t)(sign | (rest > 0x7f800000 ? 0x7e00 : finite));
}

#define COMBINE(type, result)                     \
  for (uint32_t r = 1; r < ranks; r++) {          \
    const type* before = r == 1 ? parts[0] : out; \
    const type* next = parts[r];                  \
    for (uint64_t i = 0; i < count; i++) {        \
      const type a = before[i], b = next[i];      \
      out[i] = (type)(result);                    \
    }                                             \
  }                                               \
  break;

/* Integers are computed as `wide`, which wraps around. */
#define REDUCE(type, wide)                                                                       \
  static void reduce_##type(type* out, const type* const* parts, uint32_t ranks, uint64_t count, \
                            ob_reduction reduction) {                                            \
    if (ranks == 1) memcpy(out, parts[0], count * sizeof *out);                                  \
    switch (reduction) {                                                                         \
      case OB_REDUCTION_SUM:                                                                     \
      case OB_REDUCTION_AVERAGE:                                                                 \
        COMBINE(type, (wide)a + (wide)b)                                                         \
      case OB_REDUCTION_PRODUCT:                                                                 \
        COMBINE(type, (wide)a*(wide)b)                                                           \
      case OB_REDUCTION_MINIMUM:                                                                 \
        COMBINE(type, b < a ? b : a)                                                             \
      case OB_REDUCTION_MAXIMUM:                                                                 \
        COMBINE(type, a < b ? b : a)                                                             \
    }                                                                                            \
    if (reduction != OB_REDUCTION_AVERAGE) return;                                               \
    for (uint64_t i = 0; i < count; i++) out[i] = (type)(out[i] / (type)ranks);                  \
  }

REDUCE(uint8_t, uint64_t)
REDUCE(int8_t, uint64_t)
REDUCE(uint16_t, uint64_t)
REDUCE(int16_t, uint64_t)
REDUCE(uint32_t, uint64_t)
REDUCE(int32_t, uint64_t)
REDUCE(uint64_t, uint64_t)
REDUCE(int64_t, uint64_t)
REDUCE(float, float)
REDUCE(double, double)

/* Floating point of 16 bits is computed as float32, and rounded once. */
#define REDUCE_SMALL(name)                                                               \
  static void reduce_##name(uint16_t* out, const uint16_t* const* parts, uint32_t ranks, \
                            uint64_t count, ob_reduction reduction) {                    \
    enum { PIECE = 256 };                                                                \
    float all[PIECE], next[PIECE];                                                       \
    bool averages = reduction == OB_REDUCTION_AVERAGE;                                   \
    for (uint64_t begin = 0; begin < count; begin += PIECE) {                            \
      uint64_t n = count - begin < PIECE ? count - begin : PIECE;                        \
      for (uint64_t i = 0; i < n; i++) all[i] = from_##name(parts[0][begin + i]);        \
      for (uint32_t r = 1; r < ranks; r++) {                                             \
        for (uint64_t i = 0; i < n; i++) next[i] = from_##name(parts[r][begin + i]);     \
        reduce_float(all, (const float*[]){all, next}, 2, n,                             \
                     averages ? OB_REDUCTION_SUM : reduction);                           \
      }                                                                                  \
      float divisor = averages ? (float)ranks : 1;                                       \
      for (uint64_t i = 0; i < n; i++) out[begin + i] = to_##name(all[i] / divisor);     \
    }                                                                                    \
  }

REDUCE_SMALL(bfloat16)
REDUCE_SMALL(float16)

/* out[i] = the reduction of parts[0][i], parts[1][i] ... in this order. Each part has `count`
 * elements of the dtype bit; `out` may be parts[0]. Integers wrap around; float16 and bfloat16 are
 * computed as float32. False for an unsupported pair of dtype and reduction; with `count` 0 that
 * answer is the only effect. */
static bool reduce_parts(uint32_t dtype, ob_reduction reduction, void* out,
                         const void* const* parts, uint32_t ranks, uint64_t count) {
#define CASE(bit, type)                                                                    \
  case bit:                                                                                \
    if (count > 0) reduce_##type(out, (const type* const*)parts, ranks, count, reduction); \
    return true;
  bool averages = reduction == OB_REDUCTION_AVERAGE;
  switch (dtype) {
    CASE(OB_DTYPE_FLOAT32, float)
    CASE(OB_DTYPE_FLOAT64, double)
    case OB_DTYPE_BFLOAT16:
      reduce_bfloat16(out, (const uint16_t* const*)parts, ranks, count, reduction);
      return true;
    case OB_DTYPE_FLOAT16:
      reduce_float16(out, (const uint16_t* const*)parts, ranks, count, reduction);
      return true;
    default:
      break;
  }
  if (averages) return false;
  switch (dtype) {
    CASE(OB_DTYPE_UINT8, uint8_t)
    CASE(OB_DTYPE_INT8, int8_t)
    CASE(OB_DTYPE_UINT16, uint16_t)
    CASE(OB_DTYPE_INT16, int16_t)
    CASE(OB_DTYPE_UINT32, uint32_t)
    CASE(OB_DTYPE_INT32, int32_t)
    CASE(OB_DTYPE_UINT64, uint64_t)
    CASE(OB_DTYPE_INT64, int64_t)
    default:
      return false;
  }
#undef CASE
}

typedef struct transfer {
  intent meant;
  uint32_t item; /* bytes of an element */
  char* source;
  const char* name;
  char* destination;
  uint64_t timeout;
  uint64_t done; /* moved bytes of a message */
} transfer;

/* Transfers that run together on a queue. */
typedef struct batch {
  ob_communicator communicator; /* a reference */
  uint32_t count, capacity;
  transfer transfers[];
} batch;

/* ---- Collectives ---- */

static bool reduces(ob_communication_kind kind) {
  return kind == OB_COMMUNICATION_ALL_REDUCE || kind == OB_COMMUNICATION_REDUCE ||
         kind == OB_COMMUNICATION_REDUCE_SCATTER;
}

static bool is_message(ob_communication_kind kind) {
  return kind == OB_COMMUNICATION_SEND || kind == OB_COMMUNICATION_RECEIVE;
}

/* Waits until every rank has reached this step with the same operation. */
static bool meet(ob_communicator c, const transfer* work) {
  if (!goes_on(c, work->name)) return false;
  shared_rank* ranks = c->shared->ranks;
  ranks[c->rank].intents[c->steps % 2] = work->meant;
  uint64_t step = c->steps + 1;
  atomic_store(&ranks[c->rank].steps, step);
  ring(c);
  patience waiting = {.communicator = c, .work = work->name, .timeout = work->timeout};
  for (uint32_t r = 0; r < c->ranks; r++) {
    while (atomic_load(&ranks[r].steps) < step) {
      if (!keep_waiting(&waiting, r)) return false;
    }
    const intent* theirs = &ranks[r].intents[c->steps % 2];
    if (memcmp(theirs, &work->meant, sizeof *theirs) == 0) continue;
    fail_communicator(c,
                      "Rank %u came with %llu elements of dtype bit %x (kind %d, reduction %d) to "
                      "%s of %llu elements of dtype bit %x.",
                      r, (unsigned long long)theirs->elements, theirs->dtype, theirs->kind,
                      theirs->reduction, work->name, (unsigned long long)work->meant.elements,
                      work->meant.dtype);
    return false;
  }
  return true;
}

static void put(ob_communicator c, const transfer* work, uint64_t begin, uint64_t count) {
  char* slot = slot_of(c, c->rank);
  const char* source = work->source + begin * work->item;
  uint64_t bytes = count * work->item;
  if (work->meant.kind == OB_COMMUNICATION_BROADCAST && work->meant.peer != c->rank) return;
  uint32_t parts = work->meant.kind == OB_COMMUNICATION_REDUCE_SCATTER ? c->ranks : 1;
  for (uint32_t i = 0; i < parts; i++) {
    memcpy(slot + i * bytes, source + i * work->meant.elements * work->item, bytes);
  }
}

static void take(ob_communicator c, const transfer* work, uint64_t begin, uint64_t count) {
  char* destination = work->destination + begin * work->item;
  uint64_t bytes = count * work->item;
  const intent* meant = &work->meant;
  if (meant->kind == OB_COMMUNICATION_REDUCE && meant->peer != c->rank) return;
  if (meant->kind == OB_COMMUNICATION_BROADCAST) {
    if (meant->peer != c->rank || work->destination != work->source) {
      memcpy(destination, slot_of(c, meant->peer), bytes);
    }
    return;
  }
  const void* parts[MAX_RANKS];
  for (uint32_t r = 0; r < c->ranks; r++) {
    parts[r] =
        slot_of(c, r) + (meant->kind == OB_COMMUNICATION_REDUCE_SCATTER ? c->rank * bytes : 0);
    if (meant->kind == OB_COMMUNICATION_ALL_GATHER) {
      memcpy(destination + r * meant->elements * work->item, parts[r], bytes);
    }
  }
  if (reduces(meant->kind)) {
    reduce_parts(meant->dtype, meant->reduction, destination, parts, c->ranks, count);
  }
}

static bool run_collective(ob_communicator c, const transfer* work) {
  uint64_t most = SLOT_BYTES / work->item;
  if (work->meant.kind == OB_COMMUNICATION_REDUCE_SCATTER) most /= c->ranks;
  for (uint64_t begin = 0; begin < work->meant.elements; begin += most) {
    uint64_t rest = work->meant.elements - begin, count = rest < most ? rest : most;
    put(c, work, begin, count);
    if (!meet(c, work)) return false;
    take(c, work, begin, count);
    c->steps++;
  }
  return true;
}

/* ---- Messages ---- */

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Moves the bytes that the ring has or has room for. False if there are none. */
static bool advance(ob_communicator c, transfer* work) {
  bool sends = work->meant.kind == OB_COMMUNICATION_SEND;
  uint32_t peer = work->meant.peer;
  message_pipe* pipe = sends ? pipe_between(c, c->rank, peer) : pipe_between(c, peer, c->rank);
  uint64_t written = atomic_load(&pipe->written), taken = atomic_load(&pipe->taken);
  uint64_t left = work->meant.elements * work->item - work->done;
  uint64_t offset = (sends ? written : taken) % PIPE_BYTES;
  uint64_t bytes = sends ? PIPE_BYTES - (written - taken) : written - taken;
  bytes = smaller(smaller(bytes, left), PIPE_BYTES - offset);
  if (bytes == 0) return false;
  if (sends) {
    memcpy(pipe->bytes + offset, work->source + work->done, bytes);
  } else {
    memcpy(work->destination + work->done, pipe->bytes + offset, bytes);
  }
  atomic_fetch_add(sends ? &pipe->written : &pipe->taken, bytes);
  work->done += bytes;
  ring(c);
  return true;
}

/* Messages of one kind with one rank keep their order. */
static bool comes_after_another(const batch* work, uint32_t i) {
  for (uint32_t k = 0; k < i; k++) {
    const transfer *earlier = &work->transfers[k], *later = &work->transfers[i];
    if (earlier->meant.kind == later->meant.kind && earlier->meant.peer == later->meant.peer &&
        earlier->done < earlier->meant.elements * earlier->item) {
      return true;
    }
  }
  return false;
}

static void run_messages(batch* work) {
  ob_communicator c = work->communicator;
  patience waiting = {.communicator = c};
  for (;;) {
    bool moved = false;
    const transfer* open = NULL;
    for (uint32_t i = 0; i < work->count; i++) {
      transfer* message = &work->transfers[i];
      if (!is_message(message->meant.kind) || comes_after_another(work, i)) continue;
      moved |= advance(c, message);
      if (message->done < message->meant.elements * message->item) open = message;
    }
    if (open == NULL) return;
    if (moved) {
      waiting = (patience){.communicator = c};
      continue;
    }
    waiting.work = open->name;
    waiting.timeout = open->timeout;
    if (!keep_waiting(&waiting, open->meant.peer)) return;
  }
}

static void run_batch(void* argument) {
  batch* work = argument;
  bool goes_on = !atomic_load(&work->communicator->failed);
  for (uint32_t i = 0; i < work->count && goes_on; i++) {
    if (!is_message(work->transfers[i].meant.kind)) {
      goes_on = run_collective(work->communicator, &work->transfers[i]);
    }
  }
  if (goes_on) run_messages(work);
  release_communicator(work->communicator);
  free(work);
}

/* ---- Enqueueing ---- */

/* The group between communication_begin and communication_end. */
static _Thread_local struct {
  bool open;
  ob_status status;
  ob_queue queue;
  batch* work;
} group;

static ob_status add(batch** work, const transfer* added) {
  batch* old = *work;
  if (old != NULL && old->count < old->capacity) {
    old->transfers[old->count++] = *added;
    return OB_OK;
  }
  uint32_t capacity = old == NULL ? 1 : 2 * old->capacity;
  batch* larger = realloc(old, sizeof *old + capacity * sizeof *added);
  if (larger == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for communication.");
  if (old == NULL) larger->count = 0;
  larger->capacity = capacity;
  larger->transfers[larger->count++] = *added;
  *work = larger;
  return OB_OK;
}

static ob_status enqueue_batch(ob_queue queue, batch* work) {
  atomic_fetch_add(&work->communicator->references, 1);
  ob_status status = host_callback(NULL, queue, run_batch, work);
  if (status == OB_OK) return OB_OK;
  release_communicator(work->communicator);
  free(work);
  return status;
}

static const char* const names[] = {"all_reduce",     "reduce", "broadcast", "all_gather",
                                    "reduce_scatter", "send",   "receive"};

/* Checks a description and finds its memory. */
static ob_status prepare(ob_queue queue, ob_communicator c, const ob_communication* wanted,
                         transfer* work) {
  ob_communication_kind kind = wanted->kind;
  if (kind < OB_COMMUNICATION_ALL_REDUCE || kind > OB_COMMUNICATION_RECEIVE) {
    return fail(OB_UNSUPPORTED, "Communication of kind %d is unknown.", kind);
  }
  if (device_of(queue) != c->device || wanted->peer >= c->ranks || wanted->elements == 0 ||
      wanted->elements > UINT64_MAX / 16 / MAX_RANKS) {
    return fail(OB_INVALID_ARGUMENT,
                "%s of %llu elements with rank %u of %u on a queue of device %d, for a "
                "communicator of device %d.",
                names[kind], (unsigned long long)wanted->elements, wanted->peer, c->ranks,
                device_of(queue), c->device);
  }
  bool known = wanted->reduction >= OB_REDUCTION_SUM && wanted->reduction <= OB_REDUCTION_AVERAGE;
  if (reduces(kind) &&
      !(known && reduce_parts(wanted->dtype, wanted->reduction, NULL, NULL, c->ranks, 0))) {
    return fail(OB_UNSUPPORTED, "Reduction %d of dtype bit %x is not supported.", wanted->reduction,
                wanted->dtype);
  }
  if (is_capturing(queue))
    return fail(OB_UNSUPPORTED, "Communication cannot be captured in graphs.");

  bool root = wanted->peer == c->rank;
  bool gives = kind != OB_COMMUNICATION_RECEIVE && (kind != OB_COMMUNICATION_BROADCAST || root);
  bool gets = kind != OB_COMMUNICATION_SEND && (kind != OB_COMMUNICATION_REDUCE || root);
  *work = (transfer){.meant = {.elements = wanted->elements,
                               .kind = kind,
                               .reduction = reduces(kind) ? wanted->reduction : 0,
                               .dtype = wanted->dtype,
                               .peer = is_message(kind) || kind == OB_COMMUNICATION_REDUCE ||
                                               kind == OB_COMMUNICATION_BROADCAST
                                           ? wanted->peer
                                           : 0},
                     .item = dtype_bytes(wanted->dtype),
                     .name = names[kind],
                     .timeout = wanted->timeout};
  uint64_t bytes = wanted->elements * work->item;
  ob_status status = OB_OK;
  if (gives) {
    uint64_t parts = kind == OB_COMMUNICATION_REDUCE_SCATTER ? c->ranks : 1;
    status = locate(c->device, wanted->source, bytes * parts, &work->source);
  }
  if (gets && status == OB_OK) {
    uint64_t parts = kind == OB_COMMUNICATION_ALL_GATHER ? c->ranks : 1;
    status = locate(c->device, wanted->destination, bytes * parts, &work->destination);
  }
  return status;
}

ob_status communicate(void* context, ob_queue queue, ob_communicator communicator,
                      const ob_communication* wanted) {
  transfer work;
  ob_status status = prepare(queue, communicator, wanted, &work);
  if (!group.open) {
    batch* alone = NULL;
    if (status == OB_OK) status = add(&alone, &work);
    if (status != OB_OK) return status;
    alone->communicator = communicator;
    return enqueue_batch(queue, alone);
  }
  if (status == OB_OK && group.work != NULL &&
      (group.queue != queue || group.work->communicator != communicator)) {
    status = fail(OB_INVALID_ARGUMENT, "A group takes one communicator on one queue.");
  }
  if (status == OB_OK) status = add(&group.work, &work);
  if (status == OB_OK) {
    group.queue = queue;
    group.work->communicator = communicator;
  } else if (group.status == OB_OK) {
    group.status = status;
  }
  return status;
}

ob_status communication_begin(void* context) {
  if (group.open) return fail(OB_INVALID_ARGUMENT, "Groups of communication cannot be nested.");
  group.open = true;
  group.status = OB_OK;
  group.work = NULL;
  return OB_OK;
}

ob_status communication_end(void* context) {
  if (!group.open) return fail(OB_INVALID_ARGUMENT, "No group of communication was begun.");
  group.open = false;
  batch* work = group.work;
  group.work = NULL;
  if (group.status == OB_OK) return work == NULL ? OB_OK : enqueue_batch(group.queue, work);
  free(work);
  return fail(group.status, "A call of the group of communication failed.");
}
