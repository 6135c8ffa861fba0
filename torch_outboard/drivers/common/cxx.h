/*
 * Failures, settings, packages, binaries and processes of drivers in C++. Inside a driver a failure
 * is an exception, which Guarded turns into a status and a message of the calling thread.
 */
#ifndef OUTBOARD_DRIVERS_COMMON_CXX_H
#define OUTBOARD_DRIVERS_COMMON_CXX_H

#include <outboard/driver.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

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
// Stores the message of the calling thread and returns `status`.
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

// ---- Settings. An impossible value throws OB_INVALID_ARGUMENT.

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

// ---- Python packages

// The path of the driver's own shared library, "" if the system does not know it.
std::string own_path();
// Folders that hold Python packages: the one with this package, then those that other libraries of
// the process come from, which finds packages where this library lies in a source tree.
std::vector<std::string> package_folders();
// The path of a file in one of them, such as "ziglang/zig"; "" if none has it.
std::string file_of_package(const std::string& name);

// ---- Binaries of programs

// A binary behind a header with its size and hash, so that damage shows: drivers crash on it.
std::string sealed(std::string_view binary);
// The binary in a sealed one. Throws OB_INVALID_ARGUMENT if it is damaged.
std::string_view unsealed(const void* data, uint64_t bytes);

// ---- Processes

// Starts a command, which PATH is searched for, in a process group of its own, with default signal
// handling. `streams` become its first three descriptors, -1 for /dev/null, and it has no others.
// `changes` are variables of its environment, such as "LC_ALL=C". Returns 0 or an errno value.
int start_process(std::vector<std::string> command, std::vector<std::string> changes,
                  const std::array<int, 3>& streams, pid_t& process);

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_CXX_H
