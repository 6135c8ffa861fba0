/* Injected faults: which calls fail or are slow, and counts of calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "faults.h"

const char* const function_names[FUNCTION_COUNT] = {
#define FAULTS_NAME(kind, name, ...) #name,
    FAULTS_FUNCTIONS(FAULTS_NAME)
#undef FAULTS_NAME
};

/* In the order of their numbers in driver.h. */
static const char* const status_names[] = {
    "ok",          "not_ready",    "out_of_memory", "invalid_argument",
    "unsupported", "build_failed", "device_lost",   "error"};

typedef enum repetition { ONCE, ON, EVERY, REPETITION_COUNT } repetition;
static const char* const repetition_names[] = {"once", "on", "every"};

enum { MAX_RULES = 64, MAX_DEVICES = 64, ANY_FUNCTION = FUNCTION_COUNT };

typedef struct rule {
  int called; /* a function or ANY_FUNCTION */
  uint64_t nth, seen;
  ob_status status;
  repetition repeat;
} rule;

static atomic_uint_fast64_t calls[FUNCTION_COUNT];
static atomic_uint_fast64_t slow_us[FUNCTION_COUNT];
static atomic_uint_fast64_t delay_us, limit, injected;

static pthread_mutex_t rules_lock = PTHREAD_MUTEX_INITIALIZER;
static rule rules[MAX_RULES];
static atomic_int rule_count; /* changed under the lock, read without */

/* By device: the uses from now at which it is lost; 0: it is not. */
static atomic_uint_fast64_t uses_left[MAX_DEVICES];
static atomic_bool lost[MAX_DEVICES];

static _Thread_local char problem[448];

/* ---- Calls ---- */

void sleep_us(uint64_t microseconds) {
  if (microseconds == 0) return;
  struct timespec time = {.tv_sec = (time_t)(microseconds / 1000000),
                          .tv_nsec = (long)(microseconds % 1000000 * 1000)};
  nanosleep(&time, NULL);
}

static bool rule_applies(rule* asked, function called) {
  if (asked->called != ANY_FUNCTION && asked->called != (int)called) return false;
  asked->seen++;
  switch (asked->repeat) {
    case ONCE:
      return asked->seen == asked->nth;
    case ON:
      return asked->seen >= asked->nth;
    default:
      return asked->seen % asked->nth == 0;
  }
}

ob_status begin_call(function called) {
  atomic_fetch_add(&calls[called], 1);
  sleep_us(atomic_load(&slow_us[called]));
  if (atomic_load(&rule_count) == 0) return OB_OK;

  ob_status status = OB_OK;
  pthread_mutex_lock(&rules_lock);
  for (int i = 0; i < atomic_load(&rule_count); i++) {
    if (rule_applies(&rules[i], called) && status == OB_OK) status = rules[i].status;
  }
  pthread_mutex_unlock(&rules_lock);
  if (status == OB_OK) return OB_OK;
  atomic_fetch_add(&injected, 1);
  if (status == LIE) return LIE;
  return refuse(status, "Fault injection made this call of %s fail.", function_names[called]);
}

uint64_t calls_of(function called) { return atomic_load(&calls[called]); }
uint64_t injected_failures(void) { return atomic_load(&injected); }
uint64_t work_delay_us(void) { return atomic_load(&delay_us); }
uint64_t memory_limit(void) { return atomic_load(&limit); }

void forget_calls(void) {
  for (int i = 0; i < FUNCTION_COUNT; i++) atomic_store(&calls[i], 0);
  atomic_store(&injected, 0);
}

void forget_settings(void) {
  for (int i = 0; i < FUNCTION_COUNT; i++) atomic_store(&slow_us[i], 0);
  atomic_store(&delay_us, 0);
  atomic_store(&limit, 0);
  for (int32_t i = 0; i < MAX_DEVICES; i++) recover(i);
  pthread_mutex_lock(&rules_lock);
  atomic_store(&rule_count, 0);
  pthread_mutex_unlock(&rules_lock);
}

/* ---- Lost devices ---- */

static bool can_be_lost(int32_t device) { return device >= 0 && device < MAX_DEVICES; }

ob_status check_lost(int32_t device) {
  if (!can_be_lost(device) || !atomic_load(&lost[device])) return OB_OK;
  return refuse(OB_DEVICE_LOST, "Fault injection has lost device %d.", (int)device);
}

ob_status use_device(int32_t device) {
  if (!can_be_lost(device)) return OB_OK;
  uint_fast64_t left = atomic_load(&uses_left[device]);
  while (left > 0 && !atomic_compare_exchange_weak(&uses_left[device], &left, left - 1)) {
  }
  if (left == 1) {
    wait_for_device(device); /* nothing is pending on a lost device */
    atomic_fetch_add(&injected, 1);
    atomic_store(&lost[device], true);
  }
  return check_lost(device);
}

void recover(int32_t device) {
  if (!can_be_lost(device)) return;
  atomic_store(&uses_left[device], 0);
  atomic_store(&lost[device], false);
}

/* ---- Settings ---- */

static int find_name(const char* const* names, int count, const char* name) {
  for (int i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  return -1;
}

static bool read_number(const char* text, uint64_t* number) {
  if (text == NULL || *text < '0' || *text > '9') return false;
  char* end;
  *number = strtoull(text, &end, 10);
  return *end == '\0';
}

/* A function of the contract, or "*". */
static bool read_function(const char* text, int* called) {
  if (text == NULL) return false;
  *called = strcmp(text, "*") == 0 ? ANY_FUNCTION : find_name(function_names, FUNCTION_COUNT, text);
  return *called >= 0;
}

static bool read_status(const char* text, ob_status* status) {
  enum { COUNT = sizeof status_names / sizeof *status_names };
  uint64_t number;
  *status = read_number(text, &number) ? (number < COUNT ? (ob_status)number : -1)
                                       : find_name(status_names, COUNT, text);
  return *status > OB_NOT_READY;
}

/* FUNCTION:MICROSECONDS */
static bool apply_slow(char* value) {
  char* rest;
  int called;
  uint64_t microseconds;
  if (!read_function(strtok_r(value, ":", &rest), &called) ||
      !read_number(strtok_r(NULL, ":", &rest), &microseconds)) {
    return false;
  }
  for (int i = 0; i < FUNCTION_COUNT; i++) {
    if (called == i || called == ANY_FUNCTION) atomic_store(&slow_us[i], microseconds);
  }
  return true;
}

/* FUNCTION:NTH[:STATUS[:REPEAT]], without STATUS for a lie. */
static bool apply_fault(char* value, bool lie) {
  char* rest;
  rule added = {.status = lie ? LIE : OB_ERROR, .repeat = ONCE};
  if (!read_function(strtok_r(value, ":", &rest), &added.called) ||
      !read_number(strtok_r(NULL, ":", &rest), &added.nth) || added.nth == 0) {
    return false;
  }
  const char* status = lie ? NULL : strtok_r(NULL, ":", &rest);
  if (status != NULL && !read_status(status, &added.status)) return false;
  const char* repeat = strtok_r(NULL, ":", &rest);
  if (repeat != NULL) {
    int found = find_name(repetition_names, REPETITION_COUNT, repeat);
    if (found < 0) return false;
    added.repeat = (repetition)found;
  }
  pthread_mutex_lock(&rules_lock);
  int count = atomic_load(&rule_count);
  if (count < MAX_RULES) {
    rules[count] = added;
    atomic_store(&rule_count, count + 1);
  }
  pthread_mutex_unlock(&rules_lock);
  return count < MAX_RULES;
}

/* DEVICE:NTH */
static bool apply_loss(char* value) {
  char* rest;
  uint64_t device, nth;
  if (!read_number(strtok_r(value, ":", &rest), &device) || device >= MAX_DEVICES ||
      !read_number(strtok_r(NULL, ":", &rest), &nth) || nth == 0) {
    return false;
  }
  atomic_store(&uses_left[device], nth);
  return true;
}

static bool apply_setting(char* setting) {
  if (strcmp(setting, "count") == 0) return true;
  char* value = strchr(setting, '=');
  if (value == NULL) return false;
  *value++ = '\0';
  uint64_t number;
  if (strcmp(setting, "slow") == 0) return apply_slow(value);
  if (strcmp(setting, "fail") == 0) return apply_fault(value, false);
  if (strcmp(setting, "lie") == 0) return apply_fault(value, true);
  if (strcmp(setting, "lose") == 0) return apply_loss(value);
  if (!read_number(value, &number)) return false;
  if (strcmp(setting, "delay_us") == 0) {
    atomic_store(&delay_us, number);
  } else if (strcmp(setting, "limit") == 0) {
    atomic_store(&limit, number);
  } else {
    return false;
  }
  return true;
}

const char* apply_settings(const char* settings) {
  char* copy = strdup(settings);
  if (copy == NULL) return "There is no memory to read the settings of fault injection.";
  const char* answer = NULL;
  char* rest;
  for (char* setting = strtok_r(copy, ",", &rest); setting != NULL && answer == NULL;
       setting = strtok_r(NULL, ",", &rest)) {
    char shown[128];
    snprintf(shown, sizeof shown, "%s", setting);
    if (apply_setting(setting)) continue;
    snprintf(problem, sizeof problem,
             "\"%s\" is no setting of fault injection; there are count, delay_us=N, limit=BYTES, "
             "slow=FUNCTION:N, fail=FUNCTION:NTH[:STATUS[:once|on|every]], "
             "lie=FUNCTION:NTH[:once|on|every] and lose=DEVICE:NTH.",
             shown);
    answer = problem;
  }
  free(copy);
  return answer;
}
