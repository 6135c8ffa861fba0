/* The environment, for drivers in C and C++. torch_outboard/setting_table.py holds all settings. */
#ifndef OUTBOARD_DRIVERS_SETTINGS_H
#define OUTBOARD_DRIVERS_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A setting that is unset or empty leaves `value` as it is. False where it has a value that is not
 * possible; `problem`, of `room` bytes, is the sentence then. */

/* A whole number in decimal digits. */
bool read_number(const char* variable, uint64_t smallest, uint64_t largest, uint64_t* value,
                 char* problem, size_t room);
/* One of some words, which end with NULL. */
bool read_choice(const char* variable, const char* const* choices, const char** value,
                 char* problem, size_t room);

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_SETTINGS_H */
