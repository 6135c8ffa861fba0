/*
 * Failures of drivers. In C a function returns a status and stores a message of its thread. In C++
 * a failure is an exception inside the driver, which Guarded turns into both.
 */
#ifndef OUTBOARD_DRIVERS_COMMON_FAILURES_H
#define OUTBOARD_DRIVERS_COMMON_FAILURES_H

#include <outboard/driver.h>

#ifndef __cplusplus /* drivers::fail throws */
/* Stores the message of this thread and returns `status`, so that failing is one statement. */
ob_status fail(ob_status status, const char* format, ...) __attribute__((format(printf, 2, 3)));
/* The function of the table. */
const char* last_error(void* context);
#else

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

// Throws what a function in C has returned, unless that is OB_OK.
void check(ob_status status);

// The function of the table.
extern "C" const char* last_error(void* context);
// Stores the message of the calling thread and returns `status`.
ob_status keep_message(ob_status status, std::string message) noexcept;
// The same for the exception that is being handled.
ob_status keep_exception() noexcept;

// Checks of arguments, for several drivers. Each throws OB_INVALID_ARGUMENT.

// The bytes from the first to the last one of the rows of a copy.
uint64_t extent(uint64_t pitch, uint64_t row_bytes, uint64_t rows);
void check_pattern(uint32_t pattern_bytes, uint64_t bytes);
// The devices of a copy between two, one of them that of the queue.
void check_peers(int32_t queue, int32_t destination, int32_t source);
// Of the device and of the host.
void check_range(ob_address address, uint64_t bytes);
void check_range(const void* pointer, uint64_t bytes);

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

#endif /* __cplusplus */

#endif /* OUTBOARD_DRIVERS_COMMON_FAILURES_H */
