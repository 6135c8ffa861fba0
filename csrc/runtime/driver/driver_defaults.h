// What the kit does where a driver leaves an optional function out.
#pragma once

#include <outboard/driver.h>

namespace outboard {

// Fills the empty optional fields of `table`, which must outlive every call through it. Fields of
// the groups code, library calls and graphs stay as they are.
void fill_driver_defaults(ob_driver& table) noexcept;

}  // namespace outboard
