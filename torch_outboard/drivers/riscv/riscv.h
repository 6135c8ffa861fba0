/*
 * What the parts of the RISC-V driver share.
 *
 *   settings.cpp   the environment variables, and files in Python packages
 *   device.cpp     devices and their properties
 *   memory.cpp     memory of devices
 *   queue.cpp      queues and their threads
 *   event.cpp      events, waits, callbacks
 *   transfer.cpp   copies and fills
 *   program.cpp    programs, kernels, launches
 *   compile.cpp    what compiles and links programs
 *   image.cpp      what a program is once it is linked: an ELF file, and the same in memory
 *   unicorn.cpp    the processor: an emulator in this process
 *   table.cpp      messages and the table
 *
 * Functions that stand in the table have the contract's names and are described there. Inside the
 * driver a failure is an exception, `Failure`; table.cpp turns it into a status and a message.
 */
#ifndef OUTBOARD_DRIVERS_RISCV_RISCV_H
#define OUTBOARD_DRIVERS_RISCV_RISCV_H

#include <outboard/driver.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace riscv {

// ---- table.cpp

struct Failure {
  ob_status status;
  std::string message;
};

[[noreturn]] void fail(ob_status status, const char* format, ...)
    __attribute__((format(printf, 2, 3)));
std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));

// ---- settings.cpp

struct Settings {
  int32_t devices = 1;
  uint64_t memory = 0;  // bytes of each device, in whole pages
  uint64_t time_limit = 0;  // milliseconds of one launch
  std::string unicorn;      // the library's path, "" if it is not in a package
  std::string clang;        // a command
  std::string dialect;      // the folder of opencl.h, "" if it is not in a package
};

// Throws at a value that makes no sense.
Settings read_settings();

constexpr uint32_t kLocalMemory = 64 << 10;  // bytes of one launch
constexpr uint64_t kPage = 4096;  // of the emulated processor, whatever the host's are
inline uint64_t whole_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// ---- image.cpp

// A linked program as it lies in memory, with addresses of its device in it.
class Image {
 public:
  enum Access : uint32_t { kRead = 1, kWrite = 2, kExecute = 4 };
  struct Segment {
    uint64_t offset;  // from the start of the image; whole pages
    uint64_t bytes;
    uint32_t access;
  };

  // Reads an ELF file. Throws OB_INVALID_ARGUMENT if it is damaged, or none for this processor.
  Image(std::string file, const std::function<uint64_t(uint64_t bytes)>& place);

  const std::string& file() const { return file_; }
  const std::string& content() const { return content_; }
  const std::vector<Segment>& segments() const { return segments_; }
  uint64_t address() const { return address_; }
  // The address of a function, 0 if there is none of that name.
  uint64_t symbol(const std::string& name) const;

 private:
  std::string file_;
  std::string content_;
  std::vector<Segment> segments_;
  std::map<std::string, uint64_t> symbols_;  // offsets
  uint64_t address_ = 0;
};

// ---- compile.cpp

// Looks for the compiler. Throws OB_UNSUPPORTED if there is none, or one that is too old.
void load_compiler(const Settings& settings);
// What programs are compiled by, for people and as a part of keys.
std::string compiler_version();
// An ELF file of OpenCL C. Throws OB_BUILD_FAILED with the compiler's log.
std::string compile(const char* source, const char* options);

// ---- unicorn.cpp

// Where everything lies for kernels of one device. Device memory has the addresses that the contract
// gives out; what else a kernel needs comes behind it.
struct AddressSpace {
  uint64_t memory;  // start of device memory
  uint64_t memory_bytes;
  uint64_t stack;  // one past its end
  uint64_t stack_bytes;
  uint64_t arguments;  // written before each launch
  uint64_t argument_bytes;
  uint64_t programs;  // of programs, up to `end`
  uint64_t end;
};

// A call of a kernel's entry point: entry(arguments_at, arguments_at + pointers).
struct Call {
  std::shared_ptr<const Image> image;
  std::string kernel;     // for messages
  uint64_t entry = 0;     // address
  std::string arguments;  // what is written to AddressSpace::arguments
  uint64_t pointers = 0;  // offset of the second argument in it
};

// One processor, which runs one call at a time.
class Processor {
 public:
  virtual ~Processor() = default;
  // Returns what went wrong as a sentence, or "".
  virtual std::string run(const Call& call) = 0;
};

// Loads the emulator. Throws if there is none, or one of another version.
void load_unicorn(const Settings& settings);
std::string unicorn_version();
std::unique_ptr<Processor> make_unicorn(const AddressSpace& space, char* memory);

// ---- device.cpp, memory.cpp

struct Device {
  int32_t index;
  AddressSpace space = {};
  char* contents = nullptr;  // where the driver reaches device memory

  std::mutex memory_mutex;
  std::map<uint64_t, uint64_t> allocations;  // bytes by start, as offsets in device memory

  std::mutex processor_mutex;
  std::unique_ptr<Processor> processor;
  uint64_t next_program = 0;  // address; those of programs that are gone are not given out again

  std::mutex queues_mutex;
  std::vector<ob_queue> queues;
};

extern Settings g_settings;
extern std::vector<std::unique_ptr<Device>>& g_devices;  // never destroyed

// Throws if there is no such device.
Device& device_at(int32_t index);
// Reserves the addresses of a device and makes its memory.
void create_memory(Device& device);
// Where the driver finds [address, address + bytes), which must lie in one allocation.
char* locate(Device& device, ob_address address, uint64_t bytes);
// Refuses what cannot be a range of host memory.
void check_host_range(const void* pointer, uint64_t bytes);

// ---- event.cpp

// One use of event_record.
struct Recording {
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> happened{false};
  int64_t time = 0;  // nanoseconds; valid once it has happened

  void happen();
  void wait();
};

// ---- queue.cpp

struct Work {
  std::function<void()> run;
  std::shared_ptr<Recording> recording;  // instead of `run`
};

// Throws if the queue cannot take it.
void enqueue(ob_queue queue, Work work);
void stop_all_queues();

}  // namespace riscv

struct ob_queue_t {
  riscv::Device& device;
  std::mutex mutex = {};
  std::condition_variable arrived = {}, done = {};
  std::deque<riscv::Work> work = {};
  uint64_t submitted = 0, completed = 0;
  bool stopping = false;
  std::string failure = {};  // the first since the last synchronization
  std::thread worker = {};
};

namespace riscv {

// ---- the table

ob_status device_properties(int32_t device, ob_device_properties* properties);
ob_status allocate(const ob_allocation* wanted, ob_address* address);
ob_status deallocate(int32_t device, ob_address address);
ob_status memory_info(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes);
ob_status queue_create(const ob_queue_description* wanted, ob_queue* queue);
ob_status queue_destroy(ob_queue queue);
ob_status queue_query(ob_queue queue);
ob_status queue_synchronize(ob_queue queue);
ob_status event_create(const ob_event_description* wanted, ob_event* event);
ob_status event_destroy(ob_event event);
ob_status event_record(ob_event event, ob_queue queue);
ob_status event_wait(ob_queue queue, ob_event event);
ob_status event_query(ob_event event);
ob_status event_synchronize(ob_event event);
ob_status event_elapsed(ob_event start, ob_event end, double* milliseconds);
ob_status host_callback(ob_queue queue, ob_host_function function, void* argument);
ob_status copy_host_to_device(ob_queue queue, ob_address destination, const void* source,
                              uint64_t bytes);
ob_status copy_device_to_host(ob_queue queue, void* destination, ob_address source, uint64_t bytes);
ob_status copy_device_to_device(ob_queue queue, ob_address destination, ob_address source,
                                uint64_t bytes);
ob_status fill(ob_queue queue, ob_address destination, const void* pattern, uint32_t pattern_bytes,
               uint64_t bytes);
ob_status program_build(const ob_program_source* source, ob_program* program);
ob_status program_binary(ob_program program, void* data, uint64_t* bytes);
ob_status program_load(const ob_program_image* image, ob_program* program);
ob_status program_release(ob_program program);
ob_status kernel_create(ob_program program, const char* name, ob_kernel* kernel);
ob_status kernel_release(ob_kernel kernel);
ob_status launch(ob_queue queue, const ob_launch* launch);

}  // namespace riscv

#endif  // OUTBOARD_DRIVERS_RISCV_RISCV_H
