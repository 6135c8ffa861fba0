// Drivers have mistakes, and some answer OK and give nothing. What would crash the process, hand
// out wrong data or raise an error without its cause is caught here, at the boundary.
#pragma once

#include <outboard/driver.h>

#include <string>

namespace outboard {

// What is wrong with a table that has all required functions; "" if nothing is.
std::string table_problem(const ob_driver& table);

// Replaces functions of `table` by ones that look at the driver's answers: objects that were
// created exist, memory does not overlap and is what the driver says, numbers and messages make
// sense. Once per process, before defaults are filled in.
void check_answers(ob_driver& table);

}  // namespace outboard
