/* Settings of drivers: environment variables. A driver's are listed in `SETTINGS` of its module,
 * those of the kit's drivers in torch_outboard/setting_table.py. */
#ifndef OUTBOARD_DRIVERS_COMMON_SETTINGS_H
#define OUTBOARD_DRIVERS_COMMON_SETTINGS_H

#include <outboard/driver.h>
#include <stdint.h>

#ifdef __cplusplus
#include <string>
#include <vector>

// An impossible value throws OB_INVALID_ARGUMENT.
namespace drivers {

// The value of an environment variable, "" if it is not set.
std::string text_setting(const char* variable);
// A whole number in the range; `otherwise` if the variable is not set.
uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise);
// One of the choices, "" if the variable is not set.
std::string choice_setting(const char* variable, const std::vector<std::string>& choices);
// The items between commas, none if the variable is not set; all are choices, if there are any.
std::vector<std::string> list_setting(const char* variable,
                                      const std::vector<std::string>& choices = {});

}  // namespace drivers

extern "C" {
#endif

/* For drivers in C. Both leave `value` unchanged where the variable is unset or empty. */

/* A whole number in decimal digits. */
ob_status read_number(const char* variable, uint64_t smallest, uint64_t largest, uint64_t* value);
/* The index of one of `choices`, which end with NULL. */
ob_status read_choice(const char* variable, const char* const* choices, int* value);

#ifdef __cplusplus
}
#endif

#endif /* OUTBOARD_DRIVERS_COMMON_SETTINGS_H */
