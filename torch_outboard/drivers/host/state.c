/* How the machine is doing, which all devices are part of; by Linux's files, where there are such.
 */
#include <stdio.h>

#include "host.h"

/* Of all processors since the machine started, in ticks. */
typedef struct processor_time {
  unsigned long long busy, total;
} processor_time;

static bool read_processor_time(processor_time* time) {
  FILE* file = fopen("/proc/stat", "r");
  if (file == NULL) return false;
  unsigned long long user, nice, system, idle, waiting, interrupts, soft_interrupts, stolen;
  int count = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                     &idle, &waiting, &interrupts, &soft_interrupts, &stolen);
  fclose(file);
  if (count != 8) return false;
  time->busy = user + nice + system + interrupts + soft_interrupts + stolen;
  time->total = time->busy + idle + waiting;
  return true;
}

/* Percent since the call before, or since the machine started. */
static bool read_utilization(double* percent) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static processor_time before;
  static double latest;
  processor_time now;
  if (!read_processor_time(&now)) return false;
  pthread_mutex_lock(&lock);
  if (now.total > before.total && now.busy >= before.busy) {
    latest = 100.0 * (double)(now.busy - before.busy) / (double)(now.total - before.total);
    before = now;
  }
  *percent = latest < 100 ? latest : 100;
  pthread_mutex_unlock(&lock);
  return true;
}

static bool read_temperature(double* celsius) {
  FILE* file = fopen("/sys/class/thermal/thermal_zone0/temp", "r");
  if (file == NULL) return false;
  long thousandths;
  int count = fscanf(file, "%ld", &thousandths);
  fclose(file);
  if (count == 1) *celsius = 1e-3 * (double)thousandths;
  return count == 1;
}

ob_status device_state(void* context, int32_t index, ob_device_state* state) {
  ob_status status = check_device(index);
  if (status != OB_OK) return status;
  /* The first version of the contract with this struct has these fields. */
  if (read_utilization(&state->utilization)) state->known |= OB_STATE_UTILIZATION;
  if (read_temperature(&state->temperature)) state->known |= OB_STATE_TEMPERATURE;
  return OB_OK;
}
