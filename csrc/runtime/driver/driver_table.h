// The driver in use: found, wrapped, checked and initialized once.
#pragma once

#include <c10/macros/Macros.h>
#include <outboard/driver.h>

#include <string>
#include <utility>

#include "runtime/driver/driver_failure.h"
#include "runtime/export.h"

namespace outboard {

// Choice of the driver, before its first use. A later choice replaces an earlier one; after the
// first use it raises RuntimeError. `name`: the name of PrivateUse1, for messages.
OUTBOARD_API void use_driver_library(const std::string& name, const std::string& path);
OUTBOARD_API void use_driver_table(const std::string& name, const ob_driver* table);
// No driver: the first use raises `reason`.
OUTBOARD_API void use_no_driver(const std::string& name, const std::string& reason);
// A choice at the first use: `find` makes it by one of the functions above. It is called without a
// lock, possibly by several threads.
OUTBOARD_API void use_driver_finder(const std::string& name, void (*find)());
// `function` is called once the driver is initialized, before any caller gets its table. It must
// not ask for the driver; exceptions become warnings. One function.
OUTBOARD_API void at_first_use(void (*function)());
// Wraps the driver, and layers added before, in a library that exports OB_LAYER_ENTRY_POINT. A
// layer that is added again becomes the outermost. Before the first use.
OUTBOARD_API void add_driver_layer(const std::string& path);

// The table; the first call loads and initializes the driver. Optional transfer, query and host
// functions have defaults and can be called unchecked; functions for code, library calls and graphs
// and those added since 2.1 may be NULL. Raises the reason at every call if there is no usable
// driver, and in a forked child of a process that had initialized it.
OUTBOARD_API const ob_driver& driver();

// The table if driver() has succeeded in this process, else nullptr. Never loads anything.
OUTBOARD_API const ob_driver* loaded_driver() noexcept;
// The same, but nullptr where the driver must not be called: in a forked child, and once
// finalize_driver() began.
OUTBOARD_API const ob_driver* usable_driver() noexcept;
inline bool driver_initialized() noexcept { return loaded_driver() != nullptr; }

// At exit: synchronizes all devices, then finalizes the driver. Later frees are ignored.
OUTBOARD_API void finalize_driver() noexcept;
// True from the start of finalize_driver on: the driver must not be called.
OUTBOARD_API bool driver_finalized() noexcept;

// Calls a function of the driver's table with the driver's context.
template <class Function, class... Arguments>
ob_status ask_driver(Function ob_driver::* function, Arguments&&... arguments) {
  const ob_driver& table = driver();
  return (table.*function)(table.context, std::forward<Arguments>(arguments)...);
}

// Functions that take their request in a struct. `flags` are OB_ALLOCATION_*.
ob_status allocate_memory(const ob_driver& table, int32_t device, uint64_t bytes,
                          ob_address* address, uint32_t flags = 0);
ob_status allocate_host_memory(const ob_driver& table, uint64_t bytes, void** pointer);
ob_status create_queue(const ob_driver& table, int32_t device, int32_t priority, ob_queue* queue);

// driver_contract.cpp: checks a driver's table against the contract and completes it with defaults.
// Copies the fields that the driver's table covers to `ours`, which must outlive every call through
// it, and fills its empty optional fields: those of transfers, queries and host functions. Empty
// fields of the groups code, library calls and graphs stay NULL. `device_synchronize` and
// `event_time` stay NULL, too: stream.cpp knows the queues, event.cpp the devices of events.
// Raises RuntimeError for a table that breaks the contract.
void adopt_table(const ob_driver& theirs, ob_driver& ours);

// A queue for a few calls. It replaces the current stream, which may capture a graph.
class TemporaryQueue {
 public:
  explicit TemporaryQueue(int32_t device);
  ~TemporaryQueue();
  C10_DISABLE_COPY_AND_ASSIGN(TemporaryQueue);

  ob_queue get() const noexcept { return queue_; }

 private:
  const ob_driver& table_;
  ob_queue queue_ = nullptr;
};

// ---- Fork and exit of a process that uses a driver

// Whether this process is a forked child of one that had initialized the driver: the child must not
// call it. One atomic load.
OUTBOARD_API bool in_bad_fork() noexcept;
// Raises RuntimeError in such a child, with the alternative. Takes no lock.
OUTBOARD_API void check_fork();

}  // namespace outboard

// OB_ASK(copy_host_to_device, queue, destination, source, bytes): calls and returns the status.
// OB_CALL checks it, too.
#define OB_ASK(function, ...) ::outboard::ask_driver(&ob_driver::function, ##__VA_ARGS__)
#define OB_CALL(function, ...) ::outboard::check_status(OB_ASK(function, ##__VA_ARGS__), #function)
