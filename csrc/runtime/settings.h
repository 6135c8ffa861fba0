// The runtime's settings from the environment. torch_outboard/settings.py refuses invalid values
// when the device is first used; setting_table.py has the ranges.
#pragma once

namespace outboard {

// An unset, empty or invalid variable has the value `otherwise`. Independent of the locale.
double number_setting(const char* variable, double otherwise) noexcept;
// "0" or "1"; false if it is neither.
bool flag_setting(const char* variable) noexcept;

}  // namespace outboard
