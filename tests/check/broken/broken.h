// A driver that is broken in one way, for the test of the checks: the table of the driver that
// BROKEN_BASE names, with functions replaced as the fault BROKEN_FAULT says. "none" is no fault.
#pragma once

#include <outboard/driver.h>

#include <atomic>
#include <cstring>
#include <mutex>

namespace broken {

extern ob_driver base;  // the whole driver

// Keeps a message for this thread and returns the status.
ob_status fail(ob_status status, const char* words);

// Changes a table so that it has a fault.
struct Fault {
  Fault(const char* name, void (*install)(ob_driver& table));
  const char* name;
  void (*install)(ob_driver& table);
  Fault* next;
};

#define BROKEN_JOIN_(a, b) a##b
#define BROKEN_JOIN(a, b) BROKEN_JOIN_(a, b)
// FAULT("name") { changes `table` }
#define FAULT(name)                                                                          \
  static void BROKEN_JOIN(install_, __LINE__)(ob_driver & table);                            \
  static broken::Fault BROKEN_JOIN(fault_, __LINE__)(name, BROKEN_JOIN(install_, __LINE__)); \
  static void BROKEN_JOIN(install_, __LINE__)([[maybe_unused]] ob_driver & table)

// Calls a function of the whole driver.
#define BASE(name, ...) broken::base.name(broken::base.context, ##__VA_ARGS__)

inline void sleep_ms(int milliseconds);

}  // namespace broken

#include <time.h>
inline void broken::sleep_ms(int milliseconds) {
  const timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&time, nullptr);
}
