#include "runtime/driver/driver_table.h"

#include <c10/util/Exception.h>
#include <dlfcn.h>
#include <outboard/library_file.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "runtime/driver/device.h"
#include "runtime/global.h"
#include "runtime/programs/program.h"
#include "runtime/programs/program_disk_cache.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

struct Choice {
  std::string name = "privateuseone";
  std::string library = {};
  const ob_driver* table = nullptr;
  void (*find)() = nullptr;
  std::string no_driver_reason =
      "no driver was chosen; install a package that brings one, or set OUTBOARD_DRIVER=host";
};

struct State {
  Choice choice;
  ob_driver table = {};
  std::vector<std::string> layers;  // paths of libraries, innermost first
  std::string failure;              // of the first use; final
};

std::atomic<const ob_driver*> g_driver{nullptr};
std::atomic<bool> g_finalized{false};
// Set in the thread that finalizes the driver, which may call it until the work is done.
thread_local bool t_finalizes = false;

std::atomic<bool> g_bad_fork{false};
std::atomic<bool> g_exit_without_driver{false};

#ifdef __GLIBC__
void end_process(int status, void*) {
  if (!g_exit_without_driver.load()) return;
  std::fflush(nullptr);
  _exit(status);
}
#endif

// Call once, after the driver was loaded: handlers run in reverse order, so those of the driver's
// libraries come after these.
void watch_process() noexcept {
  pthread_atfork(nullptr, nullptr, [] { g_bad_fork.store(true, std::memory_order_relaxed); });
#ifdef __GLIBC__  // other C libraries do not pass the status to exit handlers
  on_exit(&end_process, nullptr);
#endif
}

void* open_library(const std::string& path) {
  const char* problem = ob_library_problem(path.c_str());
  TORCH_CHECK(problem == nullptr, "the library ", path, " cannot be loaded: it ", problem,
              "; build or install it again");
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library != nullptr, "the library ", path, " could not be loaded: ", dlerror(),
              "; reinstall it");
  return library;
}

void* find_symbol(void* library, const std::string& path, const char* symbol) {
  void* address = dlsym(library, symbol);
  TORCH_CHECK(address != nullptr, "the library ", path, " does not export `", symbol,
              "`; a driver exports it as declared in outboard/driver.h");
  return address;
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
                " returned no table; it must return the address of an ob_driver");
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
  TORCH_CHECK(status == OB_OK, "`initialize` returned ", status_name(status), ": ",
              driver_message(s.table));
}

// The message of an exception for a warning, without the C++ stack of PyTorch's errors.
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
  const ob_driver* table = loaded_driver();
  if (table != nullptr && t_finalizes) return *table;
  TORCH_CHECK(!driver_finalized(), "device '", Locked<State>()->choice.name,
              "' cannot be used any more: the process is exiting");
  if (void (*const find)() = Locked<State>()->choice.find) find();
  const Locked<State> s;
  table = loaded_driver();
  if (table != nullptr) return *table;
  if (s->failure.empty()) {
    try {
      load(*s);
    } catch (const c10::Error& error) {
      s->failure = error.what_without_backtrace();
    }
  }
  TORCH_CHECK(s->failure.empty(), "device '", s->choice.name, "' is not available: ", s->failure);
  watch_process();
  run_first_use();
  g_driver.store(&s->table, std::memory_order_release);
  return s->table;
}

// Whether the driver has returned from the waits of all other threads; asks for up to a second.
bool other_waits_ended() noexcept {
  constexpr int kTries = 1000;
  for (int i = 0; i < kTries; ++i) {
    if (waiting_threads() == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// Waits for the work of all devices. Where a wait is given up, now or earlier, work is still under
// way afterwards.
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
  const Locked<State> s;
  TORCH_CHECK(g_driver.load() == nullptr && s->failure.empty(), "driver '", choice.name,
              "' cannot be chosen: driver '", s->choice.name,
              "' is in use already, and a process has one; choose before the first use");
  s->choice = std::move(choice);
}

}  // namespace

bool in_bad_fork() noexcept { return g_bad_fork.load(std::memory_order_relaxed); }

void check_fork() {
  TORCH_CHECK(!in_bad_fork(),
              "the device cannot be used in a forked child of a process that already used it; "
              "start workers with the 'spawn' or 'forkserver' method of multiprocessing");
}

void use_driver_library(const std::string& name, const std::string& path) {
  choose({.name = name, .library = path});
}

void use_driver_table(const std::string& name, const ob_driver* table) {
  TORCH_CHECK_VALUE(table != nullptr, "the table of driver '", name, "' is a null pointer");
  choose({.name = name, .table = table});
}

void use_no_driver(const std::string& name, const std::string& reason) {
  choose({.name = name, .no_driver_reason = reason});
}

void use_driver_finder(const std::string& name, void (*find)()) {
  choose({.name = name, .find = find, .no_driver_reason = "it was not found"});
}

void at_first_use(void (*function)()) { g_first_use.store(function); }

void add_driver_layer(const std::string& path) {
  const Locked<State> s;
  TORCH_CHECK(g_driver.load() == nullptr, "a layer cannot wrap a driver that is in use already");
  std::erase(s->layers, path);
  s->layers.push_back(path);
}

ob_status allocate_memory(const ob_driver& table, int32_t device, uint64_t bytes,
                          ob_address* address, uint32_t flags) {
  const ob_allocation wanted = {
      .struct_size = sizeof(wanted), .device = device, .bytes = bytes, .flags = flags};
  const RecordedHostCall record("allocate");
  return table.allocate(table.context, &wanted, address);
}

ob_status allocate_host_memory(const ob_driver& table, uint64_t bytes, void** pointer) {
  const ob_host_allocation wanted = {.struct_size = sizeof(wanted), .bytes = bytes};
  return table.host_allocate(table.context, &wanted, pointer);
}

ob_status create_queue(const ob_driver& table, int32_t device, int32_t priority, ob_queue* queue) {
  const ob_queue_description wanted = {
      .struct_size = sizeof(wanted), .device = device, .priority = priority};
  return table.queue_create(table.context, &wanted, queue);
}

TemporaryQueue::TemporaryQueue(int32_t device) : table_(driver()) {
  check_status(create_queue(table_, device, /*priority=*/0, &queue_), "queue_create");
}

TemporaryQueue::~TemporaryQueue() {
  defer_status(table_.queue_destroy(table_.context, queue_), "queue_destroy");
}

const ob_driver& driver() {
  const ob_driver* table = loaded_driver();
  if (C10_UNLIKELY(table == nullptr || in_bad_fork() || driver_finalized())) {
    check_fork();
    return load_once();
  }
  return *table;
}

const ob_driver* loaded_driver() noexcept { return g_driver.load(std::memory_order_acquire); }

const ob_driver* usable_driver() noexcept {
  return in_bad_fork() || driver_finalized() ? nullptr : loaded_driver();
}

bool driver_finalized() noexcept { return g_finalized.load(std::memory_order_acquire); }

void finalize_driver() noexcept {
  if (!driver_initialized() || in_bad_fork() || g_finalized.exchange(true)) return;
  const ob_driver& table = *g_driver.load();
  // From here on driver() raises in other threads: they could add work without end.
  t_finalizes = true;
  wait_for_all(table);
  if (gave_up_waiting() && any_is_busy(table)) {
    // Work never ends: the driver cannot be finalized, and destructors of its libraries may wait
    // for that work. exit() then ends the process before them, with its status.
    g_exit_without_driver.store(true);
    t_finalizes = false;
    return;
  }
  close_disk_cache();
  t_finalizes = false;
  // A thread in the driver still needs its queues and programs.
  if (!other_waits_ended()) return;
  g_driver.store(nullptr, std::memory_order_release);
  release_programs(table);
  const ob_status status = table.finalize(table.context);
  if (status != OB_OK) TORCH_WARN("at exit, `finalize` failed: ", driver_message(table));
}

}  // namespace outboard
