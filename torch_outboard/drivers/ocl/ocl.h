/*
 * What the parts of the OpenCL driver share.
 *
 *   opencl.h      the part of OpenCL that is used
 *   library.cpp   finding OpenCL on this machine
 *   settings.cpp  the environment variables
 *   device.cpp    devices and their properties
 *   memory.cpp    memory of devices and pinned memory
 *   worker.cpp    threads for host callbacks
 *   queue.cpp     queues, and graphs that they record
 *   event.cpp     events, waits, callbacks
 *   clock.cpp     the clock of a device and that of the host
 *   transfer.cpp  copies and fills
 *   peer.cpp      copies between devices
 *   program.cpp   programs, kernels, launches
 *   table.cpp     the table, and OpenCL's codes
 *   pocl/processor.cpp  the processor that PoCL compiles for
 *   pocl/functions.cpp  how PoCL's own functions come to be inlined into kernels
 *   pocl/cache.cpp      where PoCL keeps what it compiles
 *   pocl/cache_limit.cpp  how much of it
 *   pocl/declarations.cpp  the declarations that a source needs
 *   pocl/compiler_*     processes that compile for PoCL
 *
 * Functions that stand in the table have the contract's names and are described there. Failures and
 * settings are those of drivers/common.
 */
#ifndef OUTBOARD_DRIVERS_OCL_OCL_H
#define OUTBOARD_DRIVERS_OCL_OCL_H

#include <common/failure.h>
#include <outboard/driver.h>

#include <array>
#include <atomic>
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

// ---- table.cpp

// Throws unless an OpenCL function succeeded. `call` is its name.
void check(cl_int code, const char* call);
// "CL_INVALID_VALUE (-30)", or the number alone.
std::string code_name(cl_int code);

// ---- settings.cpp

struct Settings {
  std::string library;
  std::vector<std::string> devices;  // empty: all
  std::vector<std::string> mask;     // capabilities to hide
  std::string memory;                // "": by device; shared, coarse, handles
  std::string processor;             // that PoCL compiles for; "": by itself
  std::string events;                // "": by device; each, late
  uint64_t memory_bytes = 0;         // of each device; 0: by device
  uint64_t copies = 1;
  uint64_t compiler_processes = 4;
};

// Throws at a value that makes no sense.
Settings read_settings();

// ---- library.cpp

struct Platform {
  OpenCL api;
  cl_platform_id id = nullptr;
  std::string name;
  std::string version;
  std::string library;  // the file that the platform's functions lie in
};

// All platforms of this machine, each once. Adds a line to `report` for each place looked at.
std::vector<Platform*> find_platforms(const Settings& settings, std::string& report);

// ---- pocl/processor.cpp

// A value of OUTBOARD_OCL_PROCESSOR: as if PoCL did not know the processor.
constexpr const char* kUnknownProcessor = "unknown";

// Whether a platform is the packaged PoCL, whose insides are known.
bool is_known_pocl(const Platform& platform);

// What the packaged PoCL compiles for. Empty for platforms that are no such.
struct Processor {
  std::string name;         // LLVM's
  const char* reason = "";  // why not what PoCL calls it itself; continues a sentence
};

// Sees to it that a device of the packaged PoCL compiles for a processor that its compiler knows,
// or for the one that the settings name. Called before the first build.
Processor choose_processor(const Platform& platform, cl_device_id device, const Settings& settings);

// Whether this processor has all of AVX-512 that PoCL's functions for it were compiled with.
bool has_avx512();

// ---- pocl/functions.cpp

// What PoCL's platform is called.
constexpr const char* kPocl = "Portable Computing Language";

struct Device;

// A source with what PoCL needs to be told around it; on other platforms as it is. The options may
// name types, too.
std::string surrounded(const Device& device, const std::string& source, const std::string& options);

// What tells apart binaries by it.
std::string surroundings_of_sources(const Platform& platform);

// ---- pocl/cache.cpp

// While it lives, POCL_CACHE_DIR names a folder that no other user can write to: PoCL asks for it
// when its platform is looked at. Throws where the user names another; adds a line to `report`
// where the folder is a temporary one.
class PoclCacheScope {
 public:
  explicit PoclCacheScope(std::string& report);
  ~PoclCacheScope();
  PoclCacheScope(const PoclCacheScope&) = delete;
  PoclCacheScope& operator=(const PoclCacheScope&) = delete;

 private:
  std::optional<std::string> given_;  // by the user
};

// Throws if PoCL has no room for a kernel: it would end the process.
void check_room_for_kernels(const Device& device);

// The folder that PoCL uses.
std::string pocl_cache_folder();

// Removes the cache if it is a temporary folder of this process.
void remove_temporary_pocl_cache() noexcept;

// ---- pocl/cache_limit.cpp

// Keeps others from removing entries of the cache while this process lives; where there is no other
// process, removes the oldest ones beyond OUTBOARD_CACHE_LIMIT first.
void share_pocl_cache(const std::string& folder);

// ---- pocl/declarations.cpp

// Put in front of what the packaged PoCL compiles, the header of all functions need not be read,
// and the options may have kWithoutHeader. "": it needs the header.
std::string declarations_for(const Device& device, const std::string& text);
constexpr const char* kWithoutHeader = " -D_OPENCL_H_";
// Whether names in C have such characters.
bool is_name_character(char c);

// ---- device.cpp

// What NVIDIA's platform is called.
constexpr const char* kNvidia = "NVIDIA CUDA";

enum class MemoryKind {
  kShared,   // fine-grained shared virtual memory: the host uses it like its own
  kCoarse,   // coarse-grained shared virtual memory: pointers that the host does not touch
  kHandles,  // buffers behind reserved addresses
};

struct Allocation {
  uint64_t bytes = 0;
  cl_mem buffer = nullptr;  // kHandles alone
  void* memory = nullptr;   // what clSVMAlloc returned, for the others
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
  // Commands have no events of their own, and queues cannot be timed until that is asked for: both
  // cost more than a small kernel on a GPU, and nothing on a processor.
  bool late_events = false;
  uint32_t nvidia_version = 0;  // of the instructions, as in sm_90; 0: another vendor's
  std::string no_code_reason;   // "": programs can be built
  Processor processor;
  size_t compilers = 0;  // most processes; see pocl/compiler_processes.cpp
  ob_device_properties properties = {};

  // memory.cpp
  std::shared_mutex memory_mutex;
  std::map<ob_address, Allocation> allocations;
  uint64_t allocated = 0;
  std::atomic<uint64_t> releases{0};  // of allocations, so far

  // queue.cpp
  std::mutex queues_mutex;
  std::vector<ob_queue> queues;

  // clock.cpp, in nanoseconds of the host
  std::mutex clock_mutex;
  int64_t clock_offset = 0;
  int64_t clock_measured = 0;  // when; 0: never

  bool on_cpu() const { return properties.kind == OB_DEVICE_CPU; }
};

// Looks for devices once; throws at settings that make no sense. Later calls do nothing.
void find_devices();
// What was found and what was not used, as lines of text.
const std::string& discovery_report();
// The same as half a sentence, for the case that there is no device.
std::string no_device_reason();
const std::vector<std::unique_ptr<Device>>& devices();
Device& device_at(int32_t index);

ob_status device_properties(int32_t index, ob_device_properties* properties);

// ---- memory.cpp

// Where a range of device memory is for OpenCL.
struct Place {
  cl_mem buffer = nullptr;  // kHandles: the bytes at `offset` of this
  uint64_t offset = 0;
  uint64_t length = 0;      // of the whole buffer
  void* pointer = nullptr;  // otherwise: shared virtual memory
};

// Throws unless [address, address + bytes) lies in one allocation of the device or, where that is
// device memory, too, in memory of the host.
Place locate(Device& device, ob_address address, uint64_t bytes);
// Throws at what cannot be a range of host memory.
void check_host_range(const void* pointer, uint64_t bytes);

ob_status allocate(const ob_allocation* wanted, ob_address* address);
ob_status deallocate(int32_t index, ob_address address);
ob_status memory_info(int32_t index, uint64_t* free_bytes, uint64_t* total_bytes);
ob_status host_allocate(const ob_host_allocation* wanted, void** pointer);
ob_status host_deallocate(void* pointer);

// ---- worker.cpp

// Runs a task on a thread that no other task is waiting for. Tasks may block. Never throws.
void post(std::function<void()> task) noexcept;
// Makes sure that there is a thread, so that `post` cannot fail.
void start_workers();
// Waits for all tasks and ends the threads.
void stop_workers();

// ---- queue.cpp

// After `finalize` nothing is enqueued any more.
extern std::atomic<bool> g_ended;

// One reference to an OpenCL event.
class EventReference {
 public:
  EventReference() = default;
  // Takes over a reference.
  EventReference(const OpenCL* api, cl_event event) : api_(api), event_(event) {}
  EventReference(const EventReference& other);
  EventReference(EventReference&& other) noexcept;
  EventReference& operator=(EventReference other) noexcept;
  ~EventReference();

  explicit operator bool() const { return event_ != nullptr; }
  cl_event get() const { return event_; }
  // CL_COMPLETE, a negative number after a failure, or a positive one before the end.
  cl_int status() const;
  // Waits until the end. Throws if what it stands for failed.
  void wait() const;

 private:
  const OpenCL* api_ = nullptr;
  cl_event event_ = nullptr;
};

// ---- pocl/compiler_processes.cpp

// How many processes may compile: as many as cores, and no more than the setting; 0 with one core.
size_t compiler_limit(const Settings& settings);

// A source that was built in a process pocl_compiler.
struct CompilerSource {
  uint64_t number;
  std::string text;
  std::string options;
};
// NULL if there is no such process, or it does not answer.
std::shared_ptr<const CompilerSource> build_in_compiler(const Device& device,
                                                        const std::string& text,
                                                        const std::string& options);

// What the code of a kernel depends on, and what a launch needs.
struct CompiledLaunch {
  std::string kernel;
  // Bytes of each argument of clSetKernelArg; negative where the value is NULL.
  std::vector<int32_t> arguments;
  uint32_t dimensions = 0;
  std::array<size_t, 3> global = {};
  std::array<size_t, 3> local = {};
};
// An event that completes when PoCL's cache has the code, or the process failed; none if there is
// no process.
EventReference compile_for_launch(const Device& device,
                                  const std::shared_ptr<const CompilerSource>& source,
                                  const CompiledLaunch& launch);

// Starts the first process unless it is running.
void start_compilers(const Device& device);
void stop_compilers() noexcept;

}  // namespace ocl

// Work that was given to a queue while it recorded, each piece as a function that gives it to a
// queue.
struct ob_graph_t {
  explicit ob_graph_t(ocl::Device& device) : device(device) {}

  ocl::Device& device;
  std::vector<std::function<void(ob_queue)>> work;
};

struct ob_queue_t {
  ob_queue_t(ocl::Device& device, int32_t priority) : device(device), priority(priority) {}

  ocl::Device& device;
  const int32_t priority;
  cl_command_queue commands = nullptr;
  bool timed = false;     // its commands have times
  bool unmarked = false;  // there is work behind `last`
  // Around every enqueue, so that `last` is the last, and around all of a graph.
  std::recursive_mutex mutex;
  std::unique_ptr<ob_graph_t> graph;  // being recorded
  // Of the last command that has an event; empty when all work up to there is known to be done and
  // no failure is to be reported.
  ocl::EventReference last;
};

namespace ocl {

// Throws if the driver has ended.
void check_usable();
// Remembers the last command of a queue, whose event reference it takes over. The caller holds the
// queue's mutex.
void set_last(ob_queue queue, cl_event event);
// The event behind all work so far. Likewise.
const EventReference& last_of(ob_queue queue);
// Whether all work is done. Likewise.
bool is_idle(ob_queue queue);
// Whatever is enqueued from now on has times. Likewise.
void be_timed(ob_queue queue);

// Enqueues one command: calls function(commands, &event), which returns OpenCL's code; the pointer
// is NULL where the command needs no event. The function holds what it needs by value: a graph
// calls it again. `own_event` asks for one in any case, which is the queue's last afterwards.
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

// A queue that is not listed at its device.
std::unique_ptr<ob_queue_t> make_queue(Device& device, int32_t priority);
void release_queue(ob_queue_t& queue);

ob_status queue_create(const ob_queue_description* wanted, ob_queue* queue);
ob_status queue_destroy(ob_queue queue);
ob_status queue_query(ob_queue queue);
ob_status queue_synchronize(ob_queue queue);
ob_status device_synchronize(int32_t index);
ob_status queue_native_handle(ob_queue queue, void** handle);

// ---- event.cpp

// A mark behind all work of a queue so far; `timed`: that has a time.
EventReference mark(ob_queue queue, bool timed = false);
// Later work on `queue` waits for an event of `owner`, which may be another device.
void wait_for(ob_queue queue, const EventReference& event, const Device& owner);
// Runs a task after an event, on a thread of the driver.
void run_after(const EventReference& event, const OpenCL& api, std::function<void()> task);

// Throws unless launches on this device can record the event, or it is NULL.
void check_launch_event(ob_event event, const Device& device);
// The event has the time when a kernel began to run, or when it had ended.
void record_launch(ob_event event, const EventReference& kernel, bool start);

ob_status event_create(const ob_event_description* wanted, ob_event* event);
ob_status event_destroy(ob_event event);
ob_status event_record(ob_event event, ob_queue queue);
ob_status event_wait(ob_queue queue, ob_event event);
ob_status event_query(ob_event event);
ob_status event_synchronize(ob_event event);
ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds);
ob_status event_time(ob_event event, uint64_t* nanoseconds);
ob_status host_callback(ob_queue queue, ob_host_function function, void* argument);

// ---- clock.cpp

// Of a completed command, in nanoseconds of the device: `what` is CL_PROFILING_COMMAND_*.
int64_t device_time(const Device& device, const EventReference& event, cl_uint what);
// Nanoseconds of the device in those of the host's CLOCK_MONOTONIC.
int64_t to_host_time(Device& device, int64_t nanoseconds);

// ---- transfer.cpp

ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                              uint64_t bytes);
ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source, uint64_t bytes);
ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                uint64_t bytes);
ob_status copy_host_to_device_2d(ob_queue queue, ob_address destination, uint64_t destination_pitch,
                                 const void* source, uint64_t source_pitch, uint64_t row_bytes,
                                 uint64_t rows);
ob_status copy_device_to_host_2d(ob_queue queue, void* destination, uint64_t destination_pitch,
                                 ob_address source, uint64_t source_pitch, uint64_t row_bytes,
                                 uint64_t rows);
ob_status copy_device_to_device_2d(ob_queue queue, ob_address destination,
                                   uint64_t destination_pitch, ob_address source,
                                   uint64_t source_pitch, uint64_t row_bytes, uint64_t rows);
ob_status fill(ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,
               uint64_t bytes);

// ---- peer.cpp

ob_status peer_access(int32_t index, int32_t peer, int32_t* direct);
ob_status copy_peer(ob_queue queue, int32_t destination_device, ob_address destination,
                    int32_t source_device, ob_address source, uint64_t bytes);

// ---- program.cpp

ob_status program_build(const ob_program_source* source, ob_program* program);
ob_status program_binary(ob_program program, void* data, uint64_t* bytes);
ob_status program_load(const ob_program_image* image, ob_program* program);
ob_status program_release(ob_program program);
ob_status kernel_create(ob_program program, const char* name, ob_kernel* kernel);
ob_status kernel_release(ob_kernel kernel);
ob_status kernel_attributes(ob_kernel kernel, ob_kernel_attributes* attributes);
ob_status launch(ob_queue queue, const ob_launch* launch);

// ---- queue.cpp: graphs

// Throws while the queue records a graph: `what` cannot be in one. The caller holds its mutex.
void check_not_recording(ob_queue queue, const char* what);

ob_status graph_begin(ob_queue queue);
ob_status graph_end(ob_queue queue, ob_graph* graph);
ob_status graph_launch(ob_queue queue, ob_graph graph);
ob_status graph_release(ob_graph graph);

}  // namespace ocl

#endif  // OUTBOARD_DRIVERS_OCL_OCL_H
