/*
 * The basis of layers: tables around a driver's table, whose functions do something before or after
 * the driver's. One driver per process.
 */
#ifndef OUTBOARD_DRIVERS_COMMON_LAYER_H
#define OUTBOARD_DRIVERS_COMMON_LAYER_H

#include <common/failures.h>
#include <outboard/driver.h>

#include <algorithm>
#include <cstring>

namespace layers {

constexpr int32_t kMaxDevices = 64;

// The wrapped driver. Functions that a table does not reach are NULL.
inline ob_driver g_driver = {};

inline thread_local bool t_message_is_ours = false;

// Stores the message of this thread and returns `status`.
template <class... Values>
ob_status refuse(ob_status status, const char* format, Values... values) {
  t_message_is_ours = true;
  return drivers::keep_message(status, drivers::format(format, values...));
}

inline const char* last_error(void* context) {
  return t_message_is_ours ? drivers::last_error(nullptr) : g_driver.last_error(context);
}

// The function of the table at `field`. `around(inner, arguments...)` returns its status, and calls
// the driver's by inner(). The context, which is the driver's, goes to inner() alone.
template <auto field, auto around>
struct Wrapper;
template <class... Arguments, ob_status (*ob_driver::*field)(void*, Arguments...), auto around>
struct Wrapper<field, around> {
  static ob_status call(void* context, Arguments... arguments) noexcept {
    t_message_is_ours = false;
    return around([=] { return (g_driver.*field)(context, arguments...); }, arguments...);
  }
};

// Wraps a function that the driver has.
#define OB_WRAP(table, field, ...)                                           \
  if ((table).field != nullptr) {                                            \
    (table).field = ::layers::Wrapper<&ob_driver::field, __VA_ARGS__>::call; \
  }

// Starts to wrap a driver: a copy of its table, with version, name and context.
inline ob_driver copy_table(const ob_driver& driver) {
  g_driver = {};
  std::memcpy(&g_driver, &driver, std::min(driver.struct_size, sizeof g_driver));
  ob_driver table = g_driver;
  table.struct_size = sizeof table;
  if (table.last_error != nullptr) table.last_error = last_error;
  return table;
}

}  // namespace layers

#endif  // OUTBOARD_DRIVERS_COMMON_LAYER_H
