/*
 * Failures of drivers in C++: inside a driver a failure is an exception, which Guarded turns into a
 * status and a message of the calling thread.
 */
#ifndef OUTBOARD_DRIVERS_COMMON_FAILURE_H
#define OUTBOARD_DRIVERS_COMMON_FAILURE_H

#include <outboard/driver.h>

#include <string>

namespace drivers {

struct Failure {
  ob_status status;
  std::string message;
};

std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));
// Throws a Failure.
[[noreturn]] void fail(ob_status status, const char* text, ...)
    __attribute__((format(printf, 2, 3)));

// The function of the table.
extern "C" const char* last_error(void* context);
// Keeps a message for the calling thread and returns `status`.
ob_status keep_message(ob_status status, std::string message) noexcept;
// The same for the exception that is being handled.
ob_status keep_exception() noexcept;

// A function of the table that no exception leaves, for drivers with one state per library.
template <auto function>
struct Guarded;
template <class... Arguments, ob_status (*function)(Arguments...)>
struct Guarded<function> {
  static ob_status call(void*, Arguments... arguments) noexcept {
    try {
      return function(arguments...);
    } catch (...) {
      return keep_exception();
    }
  }
};

// Puts a function into a table by the contract's name of it.
#define OB_SET(table, function) (table).function = ::drivers::Guarded<function>::call

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_FAILURE_H
