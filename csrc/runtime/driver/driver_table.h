// The driver in use: found, wrapped, checked and initialized once.
#pragma once

#include <outboard/driver.h>

#include <string>
#include <utility>

#include "runtime/driver/driver_failure.h"
#include "runtime/export.h"

namespace outboard {

// Where the driver comes from. Called from Python before first use; calling again before first use
// replaces the choice, after it raises. `name` is the PrivateUse1 name, for messages.
OUTBOARD_API void use_driver_library(const std::string& name, const std::string& path);
OUTBOARD_API void use_driver_table(const std::string& name, const ob_driver* table);
// Kept as the error of the first use: why there is no driver.
OUTBOARD_API void use_no_driver(const std::string& name, const std::string& reason);
// For a driver that only others can find: `find` is called at the first use, with no lock held and
// possibly by several threads, and makes the choice with one of the functions above.
OUTBOARD_API void use_driver_finder(const std::string& name, void (*find)());
// Calls `function` when the driver has been initialized, before anybody gets it. The function must
// not ask for the driver; what it raises becomes a warning. One function.
OUTBOARD_API void at_first_use(void (*function)());
// Wraps the driver, and layers that were added before, in a library that exports
// OB_LAYER_ENTRY_POINT. Before first use; adding a layer again makes it the
// outermost.
OUTBOARD_API void add_driver_layer(const std::string& path);

// The table; loads and initializes at the first call. Every optional transfer, query and host
// function is filled with its default, so those can be called without looking; the groups code,
// library calls and graphs keep NULL, and so does what was added since 2.1. Throws c10::Error with
// the reason on every call if there is no usable driver, and in a forked child of a process that
// had initialized it.
OUTBOARD_API const ob_driver& driver();

// The table if driver() has succeeded in this process, else nullptr. Never loads anything.
OUTBOARD_API const ob_driver* loaded_driver() noexcept;
inline bool driver_initialized() noexcept { return loaded_driver() != nullptr; }

// Ends the driver in an orderly exit: synchronizes, then calls finalize. Later frees are ignored.
OUTBOARD_API void finalize_driver() noexcept;
// True from the start of finalize_driver on: nothing may call the driver any more.
OUTBOARD_API bool driver_finalized() noexcept;

// Calls a function of the driver's table with the driver's context.
template <class Function, class... Arguments>
ob_status ask_driver(Function ob_driver::* function, Arguments&&... arguments) {
  const ob_driver& table = driver();
  return (table.*function)(table.context, std::forward<Arguments>(arguments)...);
}

}  // namespace outboard

// OB_ASK(copy_host_to_device, queue, destination, source, bytes): calls and gives the status.
// OB_CALL checks it, too.
#define OB_ASK(function, ...) ::outboard::ask_driver(&ob_driver::function, ##__VA_ARGS__)
#define OB_CALL(function, ...) ::outboard::check_status(OB_ASK(function, ##__VA_ARGS__), #function)
