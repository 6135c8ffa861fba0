/*
 * Shared declarations of the OpenCL driver.
 *
 *   opencl.h      the part of OpenCL that is used
 *   ocl.cpp       settings, OpenCL's codes, and the table
 *   library.cpp   finding OpenCL on this machine
 *   device.cpp    devices and their properties
 *   memory.cpp    memory of devices and pinned memory
 *   queue.cpp     queues, and graphs that they record
 *   event.cpp     events, waits, callbacks and their threads, the clocks of device and host
 *   transfer.cpp  copies and fills, also between devices
 *   program.cpp   programs, kernels, launches
 *   pocl/processor.cpp           the processor that PoCL compiles for
 *   pocl/sources.cpp             lines that PoCL needs around a source
 *   pocl/cache.cpp               the folder of PoCL's compiled code, and its size
 *   pocl/compiler_processes.cpp  processes that compile for PoCL
 *
 * Functions of the table have the contract's names and are described there. Failures and settings
 * are those of drivers/common.
 */
#ifndef OUTBOARD_DRIVERS_OCL_OCL_H
#define OUTBOARD_DRIVERS_OCL_OCL_H

#include <common/failures.h>
#include <outboard/driver.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "opencl.h"

namespace ocl {

using drivers::fail;
using drivers::Failure;

// Each puts the functions of its file into a table.
void set_memory_functions(ob_driver& table);
void set_queue_functions(ob_driver& table);
void set_event_functions(ob_driver& table);
void set_transfer_functions(ob_driver& table);
void set_program_functions(ob_driver& table);

// ---- ocl.cpp

// Throws unless an OpenCL function succeeded. `call` is its name.
void check(cl_int code, const char* call);
// "CL_INVALID_VALUE (-30)", or the number alone.
std::string code_name(cl_int code);

struct Settings {
  std::string library;
  std::vector<std::string> devices;  // empty: all
  std::vector<std::string> mask;     // capabilities to hide
  std::string memory;                // "": by device; shared, coarse, handles
  std::string processor;             // target of PoCL's compiler; "": PoCL's choice
  std::string events;                // "": by device; each, late
  uint64_t memory_bytes = 0;         // of each device; 0: by device
  uint64_t copies = 1;
  uint64_t compiler_processes = 4;
};

// Throws at an impossible value.
Settings read_settings();

// ---- library.cpp

struct Platform {
  OpenCL api;
  cl_platform_id id = nullptr;
  std::string name;
  std::string version;
  std::string library;  // path of the platform's shared library
};

// All platforms of this machine, each once. Adds a line to `report` for each library.
std::vector<Platform*> find_platforms(const Settings& settings, std::string& report);

// ---- pocl

// The name of PoCL's platform.
constexpr const char* kPocl = "Portable Computing Language";

struct Device;

// Whether a platform is the build of PoCL in the package, whose private structures are known.
bool is_known_pocl(const Platform& platform);

// The processor that the packaged PoCL compiles for; empty for other platforms.
struct Processor {
  std::string name;         // of LLVM
  const char* reason = "";  // why PoCL's own choice was replaced; continues a sentence
};

// Makes a device of the packaged PoCL compile for a processor that its compiler knows, or for the
// one in the settings. Called before the first build.
Processor choose_processor(const Platform& platform, cl_device_id device, const Settings& settings);

// Whether this processor has all of AVX-512 that PoCL's functions for it were compiled with.
bool has_avx512();

// A source with the lines that PoCL needs around it; unchanged on other platforms. `options` of the
// build may name types, too.
std::string surrounded(const Device& device, const std::string& source, const std::string& options);

// The part of a binary's key for `surrounded`.
std::string surroundings_of_sources(const Platform& platform);

// Declarations that replace the header of all OpenCL functions: in front of a source, with
// kWithoutHeader in the options. "": the source needs the header.
std::string declarations_for(const Device& device, const std::string& text);
constexpr const char* kWithoutHeader = " -D_OPENCL_H_";

// Sets POCL_CACHE_DIR, while the object lives, to a folder that no other user can write to: PoCL
// reads it when its platform is first used. Throws where the user's folder is unsafe; adds a line
// to `report` where the folder is a temporary one.
class PoclCacheScope {
 public:
  explicit PoclCacheScope(std::string& report);
  ~PoclCacheScope();
  PoclCacheScope(const PoclCacheScope&) = delete;
  PoclCacheScope& operator=(const PoclCacheScope&) = delete;

 private:
  std::optional<std::string> given_;  // by the user
};

// Throws if PoCL has no disk space for a kernel: it would end the process.
void check_room_for_kernels(const Device& device);

// The folder of PoCL's cache.
std::string pocl_cache_folder();

// Removes the cache if it is a temporary folder of this process.
void remove_temporary_pocl_cache() noexcept;

// ---- device.cpp

// The name of NVIDIA's platform.
constexpr const char* kNvidia = "NVIDIA CUDA";

enum class MemoryKind {
  kShared,   // fine-grained shared virtual memory, which the host accesses directly
  kCoarse,   // coarse-grained shared virtual memory: pointers that the host does not access
  kHandles,  // buffers behind reserved addresses
};

struct Allocation {
  uint64_t bytes = 0;
  cl_mem buffer = nullptr;  // of kHandles
  void* memory = nullptr;   // of other kinds: the result of clSVMAlloc
};

struct Device {
  int32_t index = 0;
  const OpenCL* api = nullptr;
  const Platform* platform = nullptr;
  cl_device_id id = nullptr;
  cl_context context = nullptr;
  MemoryKind memory = MemoryKind::kHandles;
  bool host_memory_is_device_memory = false;
  bool has_priorities = false;
  // Commands have no events, and queues have no times until an event asks for one: on a GPU both
  // cost more than a small kernel. On a CPU they cost nothing.
  bool late_events = false;
  uint32_t nvidia_version = 0;  // compute capability times 10, such as 90; 0: not NVIDIA
  std::string no_code_reason;   // "": programs can be built
  Processor processor;
  size_t compilers = 0;  // limit of processes in pocl/compiler_processes.cpp
  ob_device_properties properties = {};

  // memory.cpp
  std::shared_mutex memory_mutex;
  std::map<ob_address, Allocation> allocations;
  uint64_t allocated = 0;
  std::atomic<uint64_t> releases{0};  // number of freed allocations

  // queue.cpp
  std::mutex queues_mutex;
  std::vector<ob_queue> queues;

  // event.cpp, in nanoseconds of the host
  std::mutex clock_mutex;
  int64_t clock_offset = 0;
  int64_t clock_measured = 0;  // time of the measurement; 0: never

  bool on_cpu() const { return properties.kind == OB_DEVICE_CPU; }
};

// Finds the devices once; later calls do nothing. Throws at impossible settings.
void find_devices();
// Lines about libraries and devices, used and unused.
const std::string& discovery_report();
// The same as half a sentence, where there is no device.
std::string no_device_reason();
const std::vector<std::unique_ptr<Device>>& devices();
Device& device_at(int32_t index);

ob_status device_properties(int32_t index, ob_device_properties* properties);

// ---- memory.cpp

// A location in device memory, in OpenCL's terms.
struct Location {
  cl_mem buffer = nullptr;  // of kHandles
  uint64_t offset = 0;      // bytes in the buffer
  uint64_t length = 0;      // bytes of the buffer
  void* pointer = nullptr;  // of other kinds: shared virtual memory
};

// Throws unless [address, address + bytes) lies in one allocation of the device or, where host
// memory is device memory, in memory of the host.
Location locate(Device& device, ob_address address, uint64_t bytes);
// Throws at a range that cannot be host memory.
void check_host_range(const void* pointer, uint64_t bytes);

ob_status host_allocate(const ob_host_allocation* wanted, void** pointer);
ob_status host_deallocate(void* pointer);

// ---- queue.cpp

// Set by `finalize`: nothing is enqueued any more.
extern std::atomic<bool> g_ended;

// One reference to an OpenCL event.
class EventReference {
 public:
  EventReference() = default;
  // Takes ownership of a reference.
  EventReference(const OpenCL* api, cl_event event) : api_(api), event_(event) {}
  EventReference(const EventReference& other);
  EventReference(EventReference&& other) noexcept;
  EventReference& operator=(EventReference other) noexcept;
  ~EventReference();

  explicit operator bool() const { return event_ != nullptr; }
  cl_event get() const { return event_; }
  // CL_COMPLETE, a negative number after a failure, or a positive one before the end.
  cl_int status() const;
  // Waits for completion. Throws if the command failed.
  void wait() const;

 private:
  const OpenCL* api_ = nullptr;
  cl_event event_ = nullptr;
};

// ---- pocl/compiler_processes.cpp

// The limit of processes: the number of cores, at most the setting; 0 with one core.
size_t compiler_limit(const Settings& settings);

// A source that was built in a process pocl_compiler.
struct CompilerSource {
  uint64_t number;
  std::string text;
  std::string options;
};
// NULL if there is no process, or it does not answer.
std::shared_ptr<const CompilerSource> build_in_compiler(const Device& device,
                                                        const std::string& text,
                                                        const std::string& options);

// The properties of a launch that the code of a kernel depends on.
struct CompiledLaunch {
  std::string kernel;
  // Bytes of each argument of clSetKernelArg; negative where the value is NULL.
  std::vector<int32_t> arguments;
  uint32_t dimensions = 0;
  std::array<size_t, 3> global = {};
  std::array<size_t, 3> local = {};
};
// An event that completes when PoCL's cache has the code or the process failed; empty if there is
// no process.
EventReference compile_for_launch(const Device& device,
                                  const std::shared_ptr<const CompilerSource>& source,
                                  const CompiledLaunch& launch);

// Starts the first process unless it is running.
void start_compilers(const Device& device);
void stop_compilers() noexcept;

}  // namespace ocl

// The work of a recording, as functions that enqueue one command.
struct ob_graph_t {
  explicit ob_graph_t(ocl::Device& device) : device(device) {}

  ocl::Device& device;
  std::vector<std::function<void(ob_queue)>> work;
};

struct ob_queue_t {
  ob_queue_t(ocl::Device& device, int32_t priority) : device(device), priority(priority) {}
  ob_queue_t(const ob_queue_t&) = delete;
  ob_queue_t& operator=(const ob_queue_t&) = delete;
  ~ob_queue_t();  // OpenCL deletes its queue after the last command

  ocl::Device& device;
  const int32_t priority;
  cl_command_queue commands = nullptr;
  bool timed = false;     // commands have times
  bool unmarked = false;  // there is work behind `last`
  // Held by each enqueue, which changes `last`, and by the launch of a whole graph.
  std::recursive_mutex mutex;
  std::unique_ptr<ob_graph_t> graph;  // being recorded
  // Event of the last command that has one; empty when that command is known to be done and no
  // failure is left to report.
  ocl::EventReference last;
};

namespace ocl {

// Throws if the driver has ended.
void check_usable();

// The caller of the next four functions holds the queue's mutex.

// Sets the event of the last command, and takes ownership of the reference.
void set_last(ob_queue queue, cl_event event);
// The event behind all work so far.
const EventReference& last_of(ob_queue queue);
// Whether all work is done.
bool is_idle(ob_queue queue);
// Gives later commands times.
void be_timed(ob_queue queue);

// Enqueues one command: calls function(commands, &event), which returns OpenCL's code. The pointer
// is NULL where the command needs no event, unless `own_event` requires one. The function captures
// by value, because a graph calls it again.
template <class Function>
void enqueue(ob_queue queue, const char* call, Function function, bool own_event = false) {
  std::lock_guard lock(queue->mutex);
  check_usable();
  if (queue->graph != nullptr) {
    queue->graph->work.emplace_back([=](ob_queue q) { enqueue(q, call, function, own_event); });
    return;
  }
  if (queue->device.late_events && !own_event) {
    check(function(queue->commands, static_cast<cl_event*>(nullptr)), call);
    queue->unmarked = true;
    return;
  }
  cl_event event = nullptr;
  check(function(queue->commands, &event), call);
  set_last(queue, event);
}

// A queue for internal use, absent from the device's list.
std::unique_ptr<ob_queue_t> make_queue(Device& device, int32_t priority);

ob_status queue_synchronize(ob_queue queue);
ob_status device_synchronize(int32_t index);

// Throws while the queue records a graph, which cannot contain `what`. The caller holds the queue's
// mutex.
void check_not_recording(ob_queue queue, const char* what);

// ---- event.cpp

// Runs a task on a thread that runs no other task. Tasks may block. Never throws.
void post(std::function<void()> task) noexcept;
// Waits for all tasks and ends the threads.
void stop_workers();

// A marker behind all work on a queue; `timed`: with a time.
EventReference mark(ob_queue queue, bool timed = false);
// An event that clSetUserEventStatus completes.
EventReference make_user_event(const Device& device);
// Makes later work on `queue` wait for an event of `owner`, which may be another device.
void wait_for(ob_queue queue, const EventReference& event, const Device& owner);
// Runs a task after an event, on a thread of the driver.
void run_after(const EventReference& event, const OpenCL& api, std::function<void()> task);

// Throws unless a launch on this device can record the event; NULL is allowed.
void check_launch_event(ob_event event, const Device& device);
// Gives the event the start time of a kernel, or its end time. NULL is allowed.
void record_launch(ob_event event, const EventReference& kernel, bool start);

}  // namespace ocl

#endif  // OUTBOARD_DRIVERS_OCL_OCL_H
