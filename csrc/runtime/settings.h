// Numbers from the environment.
#pragma once

namespace outboard {

// The value of an environment variable that holds a number of at least 0; `otherwise` if it is
// unset or empty. Raises ValueError for anything else. Independent of the locale.
double number_setting(const char* variable, double otherwise);

}  // namespace outboard
