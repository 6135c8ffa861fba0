/*
 * Fault injection: a table around any driver's table, with faults of drivers on request.
 *
 * `ob_wrap_driver` returns the table; functions that the wrapped driver lacks stay NULL. The table
 * always counts calls, records live objects, and returns OB_INVALID_ARGUMENT for misuse: objects
 * that are not alive, and transfers outside any allocation unless the device adopts host memory.
 * Faults are set by the environment variable OUTBOARD_FAULTS or ob_faults_configure, as a
 * comma-separated list:
 *
 *   count
 *       Nothing more.
 *   delay_us=N
 *       Work on a queue starts N microseconds later than it could, so that a forgotten
 *       synchronization shows. Needs `host_callback` of the wrapped driver, and is
 *       refused without.
 *   limit=BYTES
 *       `allocate` gives no more than this on each device; 0: no limit.
 *   slow=FUNCTION:N
 *       A call takes N microseconds longer. FUNCTION is a name of the table, or "*".
 *   fail=FUNCTION:NTH[:STATUS[:REPEAT]]
 *       The NTH call from now fails. STATUS is a name such as out_of_memory or its number; default
 *       error. REPEAT is once (default), on (all calls from the NTH on) or every (each NTH call).
 *   lie=FUNCTION:NTH[:REPEAT]
 *       The NTH call from now answers OK and does nothing.
 *   lose=DEVICE:NTH
 *       The NTH call from now that gives work to a queue of the device, or asks or waits for one,
 *       finds the device lost, and so does every later call that needs it, until device_reset of
 *       the wrapped driver.
 *
 * A call that fails this way has not happened, except for those that wait or destroy: they do their
 * work and then report failure, as drivers do when earlier work has failed. A lie about those does
 * not wait and destroys nothing.
 */
#include "faults.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ob_driver inner;

/* ---- Messages ---- */

static _Thread_local char message[512];
static _Thread_local bool message_is_ours;

ob_status refuse(ob_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  message_is_ours = true;
  return status;
}

static ob_status pass_on(ob_status status) {
  message_is_ours = false;
  return status;
}

static const char* last_error(void* context) {
  return message_is_ours ? message : inner.last_error(context);
}

/* ---- The kinds of wrappers in FAULTS_FUNCTIONS ---- */

static void sleep_on_queue(void* microseconds) { sleep_us((uintptr_t)microseconds); }

static ob_status delay(void* context, ob_queue queue) {
  uint64_t microseconds = work_delay_us();
  if (microseconds == 0 || inner.host_callback == NULL) return OB_OK;
  return pass_on(
      inner.host_callback(context, queue, sleep_on_queue, (void*)(uintptr_t)microseconds));
}

/* A query puts no work on the queue. */
static ob_status delay_unless(const uint64_t* query, void* context, ob_queue queue) {
  return query != NULL ? OB_OK : delay(context, queue);
}

#define WITH_CONTEXT(...) (void* context __VA_OPT__(, ) __VA_ARGS__)
#define AND_CONTEXT(...) (context __VA_OPT__(, ) __VA_ARGS__)

#define CALL(name, parameters, arguments, check)           \
  static ob_status faults_##name WITH_CONTEXT parameters { \
    ob_status status = begin_call(FUNCTION_##name);        \
    if (status == LIE) return OB_OK;                       \
    if (status == OB_OK) status = check;                   \
    if (status != OB_OK) return status;                    \
    return pass_on(inner.name AND_CONTEXT arguments);      \
  }

#define WORK(name, parameters, arguments, queue, check) \
  CALL(name, parameters, arguments, check_queue(queue) ?: (check) ?: delay(context, queue))

#define WAIT(name, parameters, arguments, check)           \
  static ob_status faults_##name WITH_CONTEXT parameters { \
    ob_status injected = begin_call(FUNCTION_##name);      \
    if (injected == LIE) return OB_OK;                     \
    ob_status status = check;                              \
    if (status != OB_OK) return status;                    \
    status = inner.name AND_CONTEXT arguments;             \
    return status != OB_OK ? pass_on(status) : injected;   \
  }

#define CREATE(name, parameters, arguments, check, kind, handle, device_index, byte_count)    \
  static ob_status faults_##name WITH_CONTEXT parameters {                                    \
    ob_status status = begin_call(FUNCTION_##name);                                           \
    if (status == LIE) return OB_OK;                                                          \
    if (status == OB_OK) status = check;                                                      \
    if (status != OB_OK) return status;                                                       \
    status = inner.name AND_CONTEXT arguments;                                                \
    if (status == OB_OK) {                                                                    \
      add_object(kind, (object){.key = handle, .device = device_index, .bytes = byte_count}); \
    }                                                                                         \
    return pass_on(status);                                                                   \
  }

/* Out of the list first: once destroyed, another thread may get the same handle. */
#define DESTROY(name, parameters, arguments, kind, handle)                        \
  static ob_status faults_##name WITH_CONTEXT parameters {                        \
    ob_status injected = begin_call(FUNCTION_##name);                             \
    if (injected == LIE) return OB_OK;                                            \
    object destroyed;                                                             \
    if (!remove_object(kind, handle, &destroyed)) return not_alive(kind, handle); \
    ob_status status = inner.name AND_CONTEXT arguments;                          \
    if (status != OB_OK) add_object(kind, destroyed);                             \
    return status != OB_OK ? pass_on(status) : injected;                          \
  }

#define CUSTOM(name)

#define DEFINE(kind, ...) kind(__VA_ARGS__)
FAULTS_FUNCTIONS(DEFINE)

/* NULL, or why the settings do not suit the wrapped driver. */
static const char* settings_problem(void) {
  if (work_delay_us() == 0 || inner.name == NULL || inner.host_callback != NULL) return NULL;
  static _Thread_local char text[256];
  snprintf(
      text, sizeof text,
      "delay_us delays work by `host_callback`, which the driver \"%.100s\" lacks; leave it out.",
      inner.name);
  return text;
}

static ob_status faults_initialize(void* context) {
  ob_status status = begin_call(FUNCTION_initialize);
  if (status == LIE) return OB_OK;
  if (status != OB_OK) return status;
  status = inner.initialize(context);
  int32_t count = 0;
  if (status == OB_OK) status = inner.device_count(context, &count);
  for (int32_t i = 0; i < count && status == OB_OK; i++) {
    ob_device_properties properties = {.struct_size = sizeof properties};
    status = inner.device_properties(context, i, &properties);
    set_adopts_host_memory(i, properties.features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY);
  }
  return pass_on(status);
}

static ob_status faults_memory_info(void* context, int32_t device, uint64_t* free_bytes,
                                    uint64_t* total_bytes) {
  ob_status status = begin_call(FUNCTION_memory_info);
  if (status == LIE) return OB_OK;
  if (status != OB_OK) return status;
  status = inner.memory_info(context, device, free_bytes, total_bytes);
  uint64_t limit = memory_limit();
  if (status == OB_OK && limit != 0 && limit < *total_bytes) {
    uint64_t used = live_bytes(device);
    uint64_t left = used < limit ? limit - used : 0;
    *total_bytes = limit;
    if (left < *free_bytes) *free_bytes = left;
  }
  return pass_on(status);
}

static ob_status faults_device_reset(void* context, int32_t device) {
  ob_status status = begin_call(FUNCTION_device_reset);
  if (status == LIE) return OB_OK;
  if (status == OB_OK) status = check_given_back(device);
  if (status != OB_OK) return status;
  status = inner.device_reset(context, device);
  if (status == OB_OK) recover(device);
  return pass_on(status);
}

void wait_for_device(int32_t device) {
  if (inner.device_synchronize != NULL) {
    (void)inner.device_synchronize(inner.context, device);
    return;
  }
  uint64_t queue;
  for (size_t i = 0; live_object_of(QUEUE, device, i, &queue); i++) {
    (void)inner.queue_synchronize(inner.context, (ob_queue)(uintptr_t)queue);
  }
}

/* ---- For the loader and for tests ---- */

/* Of one driver per process. */
FAULTS_EXPORT const ob_driver* ob_wrap_driver(const ob_driver* wrapped, const char** problem) {
  static ob_driver table;
  size_t size = wrapped->struct_size < sizeof inner ? wrapped->struct_size : sizeof inner;
  memset(&inner, 0, sizeof inner);
  memcpy(&inner, wrapped, size);
  table = inner; /* version, name and context are the wrapped driver's */
  table.struct_size = sizeof table;
  if (inner.last_error != NULL) table.last_error = last_error;
#define WRAP(kind, function_name, ...) \
  if (inner.function_name != NULL) table.function_name = faults_##function_name;
  FAULTS_FUNCTIONS(WRAP)
#undef WRAP
  const char* settings = getenv("OUTBOARD_FAULTS");
  const char* wrong = settings == NULL ? NULL : apply_settings(settings);
  if (wrong == NULL) wrong = settings_problem();
  if (wrong == NULL) return &table;
  static _Thread_local char text[512];
  snprintf(text, sizeof text, "OUTBOARD_FAULTS: %s", wrong);
  *problem = text;
  return NULL;
}

/* NULL, or the problem of the settings, valid until the thread's next call. */
FAULTS_EXPORT const char* ob_faults_configure(const char* settings) {
  const char* problem = apply_settings(settings);
  return problem != NULL ? problem : settings_problem();
}

/* Clears settings and counts; live objects stay recorded. */
FAULTS_EXPORT void ob_faults_reset(void) {
  forget_settings();
  forget_calls();
}

/* Names by number, NULL beyond the last; calls and live objects by the same numbers. */
FAULTS_EXPORT const char* ob_faults_function_name(int number) {
  return number >= 0 && number < FUNCTION_COUNT ? function_names[number] : NULL;
}

FAULTS_EXPORT uint64_t ob_faults_calls(int number) { return calls_of((function)number); }

FAULTS_EXPORT const char* ob_faults_object_kind(int number) {
  return number >= 0 && number < OBJECT_KIND_COUNT ? object_kind_names[number] : NULL;
}

FAULTS_EXPORT uint64_t ob_faults_live(int number) { return live_objects((object_kind)number); }

/* Writes a line for each live object; returns the length of the whole text. */
FAULTS_EXPORT size_t ob_faults_describe_live(char* text, size_t size) {
  return describe_objects(text, size);
}

FAULTS_EXPORT uint64_t ob_faults_misuses(void) { return misuses(); }
FAULTS_EXPORT uint64_t ob_faults_injected(void) { return injected_failures(); }
