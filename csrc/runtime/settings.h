// The runtime's settings from the environment. torch_outboard/setting_table.py lists the settings
// of all parts, with the same ranges.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "runtime/export.h"

namespace outboard {

struct NumberSetting {
  const char* variable;
  const char* unit;
  double otherwise;  // the default
  double highest;
  bool whole;
};

inline constexpr NumberSetting kWaitTimeout = {"OUTBOARD_WAIT_TIMEOUT", "seconds", 0, 1e9, false};
inline constexpr NumberSetting kWaitWarning = {"OUTBOARD_WAIT_WARNING", "seconds", 60, 1e9, false};
inline constexpr NumberSetting kCompileNotice = {"OUTBOARD_COMPILE_NOTICE", "seconds", 3, 1e9,
                                                 false};
inline constexpr NumberSetting kWorkInFlight = {"OUTBOARD_WORK_IN_FLIGHT", "driver calls", 1024,
                                                1e15, true};
inline constexpr const char* kBlocking = "OUTBOARD_BLOCKING";

// An unset or empty variable has the default; any other invalid value raises ValueError.
// Independent of the locale.
double number_setting(const NumberSetting& setting);
// "0" or "1".
bool flag_setting(const char* variable);
// One of some names; the first is the default.
const char* choice_setting(const char* variable, std::initializer_list<const char*> choices);

// Raises ValueError if a setting of the runtime is invalid. Afterwards, reading them does not
// raise.
OUTBOARD_API void check_settings();
// The variables that check_settings() reads.
OUTBOARD_API std::vector<std::string> runtime_settings();

}  // namespace outboard
