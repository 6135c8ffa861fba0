/* The beginning of every driver: a table without a device. */
#include <outboard/driver.h>

static const char* last_error(void* context) { return "no mychip is plugged in"; }

static ob_status initialize(void* context) { return OB_OK; }

static ob_status device_count(void* context, int32_t* count) {
  *count = 0;
  return OB_OK;
}

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static const ob_driver table = {
      .major = OB_VERSION_MAJOR,
      .minor = OB_VERSION_MINOR,
      .struct_size = sizeof(ob_driver),
      .name = "mychip",
      .last_error = last_error,
      .initialize = initialize,
      .device_count = device_count,
  };
  return &table;
}
