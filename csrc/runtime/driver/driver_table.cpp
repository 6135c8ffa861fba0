#include "runtime/driver/driver_table.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <outboard/library_file.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_defaults.h"
#include "runtime/driver/utf8.h"
#include "runtime/fork.h"
#include "runtime/hard_exit.h"
#include "runtime/programs/program.h"
#include "runtime/programs/program_disk_cache.h"
#include "runtime/settings.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

struct Choice {
  std::string name = "privateuseone";
  std::string library;
  const ob_driver* table = nullptr;
  void (*find)() = nullptr;
  std::string no_driver_reason =
      "no driver was chosen; install a package that brings one, or set OUTBOARD_DRIVER=host";
};

// Leaked on purpose: deleters of tensors may run after static destruction.
struct State {
  std::mutex mutex;
  Choice choice;
  ob_driver table = {};
  std::vector<std::string> layers;  // paths of libraries, the innermost first
  std::string failure;              // of the first use; final
};

State& state() {
  static State* instance = new State;
  return *instance;
}

std::atomic<const ob_driver*> g_driver{nullptr};
std::atomic<bool> g_finalized{false};
// Set in the thread that ends the driver, while it waits for what others gave it.
thread_local bool t_finalizes = false;

void* open_library(const std::string& path) {
  const char* problem = ob_library_problem(path.c_str());
  TORCH_CHECK(problem == nullptr, "the library ", path, " cannot be loaded: it ",
              problem != nullptr ? problem : "", "; build or install it again");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = dlerror();
    TORCH_CHECK(false, "the library ", path,
                " could not be loaded: ", reason != nullptr ? reason : "no reason given",
                "; reinstall it");
  }
  return library;
}

void* find_symbol(void* library, const std::string& path, const char* symbol) {
  void* address = dlsym(library, symbol);
  TORCH_CHECK(address != nullptr, "the library ", path, " does not export `", symbol,
              "`; a driver exports it as declared in outboard/driver.h");
  return address;
}

// A missing function that every driver must have, or nullptr.
const char* missing_function(const ob_driver& table) {
#define OUTBOARD_REQUIRED(field) \
  if (table.field == nullptr) return #field;
  OUTBOARD_REQUIRED(last_error)
  OUTBOARD_REQUIRED(initialize)
  OUTBOARD_REQUIRED(device_count)
  OUTBOARD_REQUIRED(device_properties)
  OUTBOARD_REQUIRED(allocate)
  OUTBOARD_REQUIRED(deallocate)
  OUTBOARD_REQUIRED(queue_create)
  OUTBOARD_REQUIRED(queue_destroy)
  OUTBOARD_REQUIRED(queue_query)
  OUTBOARD_REQUIRED(queue_synchronize)
  OUTBOARD_REQUIRED(event_create)
  OUTBOARD_REQUIRED(event_destroy)
  OUTBOARD_REQUIRED(event_record)
  OUTBOARD_REQUIRED(event_wait)
  OUTBOARD_REQUIRED(event_query)
  OUTBOARD_REQUIRED(event_synchronize)
  OUTBOARD_REQUIRED(event_elapsed)
  OUTBOARD_REQUIRED(copy_host_to_device)
  OUTBOARD_REQUIRED(copy_device_to_host)
  OUTBOARD_REQUIRED(copy_device_to_device)
  OUTBOARD_REQUIRED(fill)
#undef OUTBOARD_REQUIRED
  return nullptr;
}

struct Member {
  const char* name;
  bool present;
};

// Of functions that make sense only together.
std::string group_problem(std::initializer_list<Member> group) {
  const Member* present = nullptr;
  const Member* missing = nullptr;
  for (const Member& member : group) {
    const Member*& seen = member.present ? present : missing;
    if (seen == nullptr) seen = &member;
  }
  if (present == nullptr || missing == nullptr) return "";
  return c10::str("has `", present->name, "` and lacks `", missing->name,
                  "`, which go together; bring both or leave both NULL");
}

std::string table_problem(const ob_driver& table) {
  if (table.name == nullptr || table.name[0] == '\0') return "lacks `name`, which every driver has";
  std::string name = table.name;
  if (replace_invalid_utf8(name.data(), name.size())) return "has a `name` that is not UTF-8";
#define OUTBOARD_MEMBER(field) \
  Member { #field, table.field != nullptr }
  for (const std::string& problem :
       {group_problem({OUTBOARD_MEMBER(host_allocate), OUTBOARD_MEMBER(host_deallocate)}),
        group_problem({OUTBOARD_MEMBER(program_build), OUTBOARD_MEMBER(program_release),
                       OUTBOARD_MEMBER(kernel_create), OUTBOARD_MEMBER(kernel_release),
                       OUTBOARD_MEMBER(launch)}),
        group_problem({OUTBOARD_MEMBER(program_binary), OUTBOARD_MEMBER(program_load)}),
        group_problem({OUTBOARD_MEMBER(graph_begin), OUTBOARD_MEMBER(graph_end),
                       OUTBOARD_MEMBER(graph_launch), OUTBOARD_MEMBER(graph_release)}),
        group_problem({OUTBOARD_MEMBER(host_register), OUTBOARD_MEMBER(host_unregister)}),
        group_problem({OUTBOARD_MEMBER(memory_export), OUTBOARD_MEMBER(memory_import),
                       OUTBOARD_MEMBER(memory_close)}),
        group_problem({OUTBOARD_MEMBER(address_reserve), OUTBOARD_MEMBER(address_release),
                       OUTBOARD_MEMBER(memory_map), OUTBOARD_MEMBER(memory_unmap)}),
        group_problem({OUTBOARD_MEMBER(communicator_id), OUTBOARD_MEMBER(communicator_create),
                       OUTBOARD_MEMBER(communicator_destroy), OUTBOARD_MEMBER(communicator_abort),
                       OUTBOARD_MEMBER(communicator_error), OUTBOARD_MEMBER(communicate),
                       OUTBOARD_MEMBER(communication_begin),
                       OUTBOARD_MEMBER(communication_end)})}) {
    if (!problem.empty()) return problem;
  }
#undef OUTBOARD_MEMBER
  return "";
}

// Copies what the driver's table covers; the rest of ours stays NULL.
void adopt_table(const ob_driver& theirs, ob_driver& ours) {
  constexpr size_t kHeaderBytes = offsetof(ob_driver, struct_size) + sizeof(theirs.struct_size);
  TORCH_CHECK(theirs.major == OB_VERSION_MAJOR, "the driver was written for version ", theirs.major,
              " of the driver contract and this torch_outboard speaks version ", OB_VERSION_MAJOR,
              "; install versions of both that match");
  TORCH_CHECK(theirs.struct_size >= kHeaderBytes, "the driver's table says it has ",
              theirs.struct_size,
              " bytes, fewer than its own header; set struct_size to sizeof(ob_driver)");
  TORCH_CHECK(theirs.struct_size % sizeof(void*) == 0, "the driver's table says it has ",
              theirs.struct_size,
              " bytes, which ends within a field; set struct_size to sizeof(ob_driver)");
  const size_t bytes = std::min(theirs.struct_size, sizeof(ours));
  ours = {};
  std::memcpy(&ours, &theirs, bytes);
  ours.struct_size = sizeof(ours);
  ours.minor = std::min(theirs.minor, OB_VERSION_MINOR);
  const char* missing = missing_function(ours);
  TORCH_CHECK(missing == nullptr, "the driver's table lacks `", missing ? missing : "",
              "`, which every driver must have; see outboard/driver.h");
  const std::string problem = table_problem(ours);
  TORCH_CHECK(problem.empty(), "the driver's table ", problem, "; see outboard/driver.h");
  fill_driver_defaults(ours);
}

void load(State& s) {
  const Choice& choice = s.choice;
  const ob_driver* theirs = choice.table;
  if (theirs == nullptr) {
    TORCH_CHECK(!choice.library.empty(), choice.no_driver_reason);
    void* library = open_library(choice.library);
    theirs = reinterpret_cast<ob_driver_entry_point>(
        find_symbol(library, choice.library, OB_DRIVER_ENTRY_POINT))();
    TORCH_CHECK(theirs != nullptr, "`", OB_DRIVER_ENTRY_POINT, "` of ", choice.library,
                " returned no table");
  }
  for (const std::string& path : s.layers) {
    void* library = open_library(path);
    const char* problem = "a layer around the driver returned no table";
    theirs = reinterpret_cast<ob_layer_entry_point>(
        find_symbol(library, path, OB_LAYER_ENTRY_POINT))(theirs, &problem);
    TORCH_CHECK(theirs != nullptr, problem);
  }
  adopt_table(*theirs, s.table);
  const ob_status status = s.table.initialize(s.table.context);
  TORCH_CHECK(status == OB_OK, "`initialize` answered ", status_name(status), ": ",
              driver_message(s.table));
  prepare_hard_exit();
}

void find_driver(State& s) {
  void (*find)() = nullptr;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    find = s.choice.find;
  }
  if (find != nullptr) find();
}

// Of what a warning says: without the stack that PyTorch's errors have.
const char* without_stack(const std::exception& error) noexcept {
  const auto* failure = dynamic_cast<const c10::Error*>(&error);
  return failure != nullptr ? failure->what_without_backtrace() : error.what();
}

std::atomic<void (*)()> g_first_use{nullptr};

void run_first_use() {
  void (*function)() = g_first_use.load();
  if (function == nullptr) return;
  try {
    function();
  } catch (const std::exception& error) {
    TORCH_WARN("preparing operators for the device failed: ", without_stack(error));
  }
}

const ob_driver& load_once() {
  check_fork();
  if (const ob_driver* table = g_driver.load(std::memory_order_acquire)) {
    if (t_finalizes) return *table;
  }
  TORCH_CHECK(!driver_finalized(), "device '", state().choice.name,
              "' cannot be used any more: the process is exiting");
  check_settings();
  State& s = state();
  find_driver(s);
  std::lock_guard<std::mutex> lock(s.mutex);
  if (const ob_driver* table = g_driver.load(std::memory_order_acquire)) return *table;
  if (s.failure.empty()) {
    try {
      load(s);
    } catch (const c10::Error& error) {
      s.failure = error.what_without_backtrace();
    }
  }
  TORCH_CHECK(s.failure.empty(), "device '", s.choice.name, "' is not available: ", s.failure);
  watch_forks();
  run_first_use();
  g_driver.store(&s.table, std::memory_order_release);
  return s.table;
}

// Whether all other threads that were waiting for the driver have come back.
bool others_came_back() noexcept {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (waiting_threads() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Waits for the work of all devices, which is not done afterwards where waiting was given up, now
// or before.
void wait_for_all(const ob_driver& table) noexcept {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (gave_up_waiting() && is_busy(table, device)) continue;
    try {
      synchronize_device(device);
    } catch (const std::exception& error) {
      TORCH_WARN("at exit: ", without_stack(error));
    }
  }
}

bool any_is_busy(const ob_driver& table) noexcept {
  for (c10::DeviceIndex device = 0; device < device_count(); ++device) {
    if (is_busy(table, device)) return true;
  }
  return false;
}

void choose(Choice choice) {
  check_fork();
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  TORCH_CHECK(g_driver.load() == nullptr && s.failure.empty(), "driver '", choice.name,
              "' cannot be chosen: driver '", s.choice.name,
              "' is in use already, and a process has one; choose before the first use");
  s.choice = std::move(choice);
}

}  // namespace

void use_driver_library(const std::string& name, const std::string& path) {
  Choice choice;
  choice.name = name;
  choice.library = path;
  choose(std::move(choice));
}

void use_driver_table(const std::string& name, const ob_driver* table) {
  TORCH_CHECK_VALUE(table != nullptr, "the table of driver '", name, "' is a null pointer");
  Choice choice;
  choice.name = name;
  choice.table = table;
  choose(std::move(choice));
}

void use_no_driver(const std::string& name, const std::string& reason) {
  Choice choice;
  choice.name = name;
  choice.no_driver_reason = reason;
  choose(std::move(choice));
}

void use_driver_finder(const std::string& name, void (*find)()) {
  Choice choice;
  choice.name = name;
  choice.find = find;
  choice.no_driver_reason = "it was not found";
  choose(std::move(choice));
}

void at_first_use(void (*function)()) { g_first_use.store(function); }

void add_driver_layer(const std::string& path) {
  State& s = state();
  std::lock_guard<std::mutex> lock(s.mutex);
  TORCH_CHECK(g_driver.load() == nullptr, "a layer cannot wrap a driver that is in use already");
  std::erase(s.layers, path);
  s.layers.push_back(path);
}

const ob_driver& driver() {
  const ob_driver* table = g_driver.load(std::memory_order_acquire);
  if (C10_UNLIKELY(table == nullptr || in_bad_fork() || driver_finalized())) {
    check_fork();
    return load_once();
  }
  return *table;
}

const ob_driver* loaded_driver() noexcept { return g_driver.load(std::memory_order_acquire); }

bool driver_finalized() noexcept { return g_finalized.load(std::memory_order_acquire); }

void finalize_driver() noexcept {
  if (!driver_initialized() || in_bad_fork() || g_finalized.exchange(true)) return;
  const ob_driver& table = *g_driver.load();
  // From here on other threads are refused, or they would give new work for ever.
  t_finalizes = true;
  wait_for_all(table);
  if (gave_up_waiting() && any_is_busy(table)) {
    exit_without_driver();
    t_finalizes = false;
    return;
  }
  close_disk_cache();
  t_finalizes = false;
  // Nothing may be taken away under a thread that the driver has not given back.
  if (!others_came_back()) return;
  g_driver.store(nullptr, std::memory_order_release);
  release_programs(table);
  const ob_status status = table.finalize(table.context);
  if (status != OB_OK) TORCH_WARN("at exit, `finalize` failed: ", driver_message(table));
}

}  // namespace outboard
