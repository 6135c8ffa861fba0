#include "runtime/programs/program.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/programs/program_disk_cache.h"
#include "runtime/recording/recording.h"
#include "runtime/settings.h"
#include "runtime/streams/wait.h"

namespace outboard {

using ProgramName = std::tuple<c10::DeviceIndex, std::string, std::string>;  // source, options

// A compiled program. Never destroyed.
class Program {
 public:
  // `name` outlives the program.
  Program(const ProgramName& name, std::string key, ob_program handle)
      : name_(name), key_(std::move(key)), handle_(handle) {}

  c10::DeviceIndex device() const noexcept { return std::get<0>(name_); }
  const std::string& key() const noexcept { return key_; }
  // Loads or builds the program again if it was released.
  ob_program handle();
  // nullptr if it was released.
  ob_program loaded_handle() const noexcept { return handle_.load(std::memory_order_acquire); }
  // The caller releases it; nullptr if it was released.
  ob_program take_handle() noexcept { return handle_.exchange(nullptr); }

  Kernel& kernel(const std::string& name) {
    std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Kernel>& kernel = kernels_[name];
    if (kernel == nullptr) kernel = std::make_unique<Kernel>(*this, name);
    return *kernel;
  }

  template <class Function>
  void for_each_kernel(const Function& function) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [name, kernel] : kernels_) function(*kernel);
  }

 private:
  const ProgramName& name_;
  const std::string key_;
  std::atomic<ob_program> handle_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

namespace {

struct Programs {
  std::map<ProgramName, std::unique_ptr<Program>> by_name;
};

std::atomic<uint64_t> g_built{0};
std::atomic<uint64_t> g_loaded{0};

constexpr const char* kPointers = R"(
#define OB_POINTER(type, name) __global type *name
#define OB_BIND(type, name)
)";

// The driver passes two arguments for an address.
constexpr const char* kHandles = R"(
#define OB_POINTER(type, name) __global char *name##_object, ulong name##_offset
#define OB_BIND(type, name) __global type *name = (__global type *)(name##_object + name##_offset);
)";

constexpr const char* kFloat64 = R"(
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define OB_HAS_FLOAT64
)";

// Whether two lines are equal except for blanks at both ends.
bool is_same_line(std::string_view one, std::string_view other) {
  const auto without_blanks = [](std::string_view line) {
    const size_t begin = std::min(line.find_first_not_of(" \t\r"), line.size());
    return line.substr(begin, line.find_last_not_of(" \t\r") + 1 - begin);
  };
  return without_blanks(one) == without_blanks(other);
}

// The lines of the source that a compiler's log names as "<anything>:<line>:<column>". Compilers
// without support for #line also count the `before` lines of the preludes; they quote the line
// below its number, which tells the two apart.
std::string lines_in_log(const std::string& source, size_t before, const std::string& log) {
  std::vector<std::string> lines;
  std::istringstream stream(source);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string shown;
  size_t previous = 0;
  int count = 0;
  std::istringstream messages(log);
  for (std::string message; std::getline(messages, message) && count < 5;) {
    if (message.find("error") == std::string::npos) continue;
    size_t number = 0;
    for (size_t at = message.find(':'); at != std::string::npos; at = message.find(':', at + 1)) {
      const size_t end = message.find_first_not_of("0123456789", at + 1);
      if (end != std::string::npos && end > at + 1 && end < at + 9 && message[end] == ':') {
        number = std::stoul(message.substr(at + 1, end - at - 1));
        break;
      }
    }
    if (number > before && number <= before + lines.size()) {
      const std::streampos next = messages.tellg();
      std::string shown_line;
      if (next != std::streampos(-1) && std::getline(messages, shown_line)) {
        const bool counts_all =
            is_same_line(shown_line, lines[number - before - 1]) &&
            (number > lines.size() || !is_same_line(shown_line, lines[number - 1]));
        if (counts_all) number -= before;
        messages.seekg(next);
      }
      messages.clear();
    }
    if (number == 0 || number > lines.size() || number == previous) continue;
    shown += c10::str("\n  line ", number, ": ", lines[number - 1]);
    previous = number;
    ++count;
  }
  return shown;
}

// Number of lines of `text` before the source.
size_t lines_before(const std::string& text, const std::string& source) {
  const size_t begin = text.size() - std::min(text.size(), source.size());
  return static_cast<size_t>(std::count(text.begin(), text.begin() + begin, '\n'));
}

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

// Builds with a shorter gap follow one another.
constexpr Seconds kBuildGap(1);

// Call after each build of a program. After OUTBOARD_COMPILE_NOTICE seconds (default 3; 0: never)
// of builds that follow one another, first launches between them included, it prints one line on
// the standard error stream, once per process: this is why the process waits.
void note_build(Clock::time_point begin) noexcept {
  static std::mutex mutex;
  static Seconds total(0);
  static Clock::time_point last;
  static int programs = 0;
  static bool printed = false;
  double seconds = 0;
  int count = 0;
  try {
    std::lock_guard<std::mutex> lock(mutex);
    const Clock::time_point now = Clock::now();
    total += programs > 0 && begin - last < kBuildGap ? now - last : now - begin;
    last = now;
    count = ++programs;
    if (printed) return;
    static const double patience = number_setting("OUTBOARD_COMPILE_NOTICE", 3);
    seconds = total.count();
    if (patience == 0 || seconds < patience) return;
    printed = true;
  } catch (const std::exception&) {
    return;  // a notice does not make a program fail
  }
  const char* next = disk_cache_is_on()
                         ? "they are cached on disk, and the next run loads them"
                         : "the next run compiles them again (see OUTBOARD_CACHE_DIR)";
  std::fprintf(stderr,
               "torch_outboard: %.0f s of compiling kernels so far (%d programs); %s. "
               "OUTBOARD_COMPILE_NOTICE=0 silences this notice.\n",
               seconds, count, next);
}

ob_program build(c10::DeviceIndex device, const std::string& text, const std::string& source,
                 const std::string& options) {
  const ob_driver& table = driver();
  ob_program program = nullptr;
  const ob_program_source described = {.struct_size = sizeof(described),
                                       .device = device,
                                       .source = text.c_str(),
                                       .options = options.c_str()};
  const RecordedHostCall record("program_build");
  const auto begin = std::chrono::steady_clock::now();
  const ob_status status = table.program_build(table.context, &described, &program);
  if (status == OB_BUILD_FAILED) {
    const std::string log = driver_message(table);
    TORCH_CHECK(false, "a kernel does not compile on ", device_of(device), ":",
                lines_in_log(source, lines_before(text, source), log), "\n", log);
  }
  check_status(status, "program_build");
  g_built.fetch_add(1, std::memory_order_relaxed);
  const std::chrono::nanoseconds spent = std::chrono::steady_clock::now() - begin;
  ThreadCosts& costs = thread_costs();
  costs.programs += 1;
  costs.compiling_nanoseconds += static_cast<uint64_t>(spent.count());
  note_build(begin);
  return program;
}

ob_program load_from_disk(c10::DeviceIndex device, const std::string& key) {
  const ob_driver& table = driver();
  if (table.program_load == nullptr) return nullptr;
  const std::string binary = disk_cache_read(key);
  if (binary.empty()) return nullptr;
  ob_program program = nullptr;
  const ob_program_image image = {.struct_size = sizeof(image),
                                  .device = device,
                                  .data = binary.data(),
                                  .bytes = binary.size()};
  const RecordedHostCall record("program_load");
  if (table.program_load(table.context, &image, &program) != OB_OK) {
    disk_cache_remove(key);  // it is built again; perhaps the compiler has another version
    return nullptr;
  }
  g_loaded.fetch_add(1, std::memory_order_relaxed);
  return program;
}

// The program and its key in the disk cache.
std::pair<ob_program, std::string> load_or_build(const ProgramName& name) {
  const auto& [device, source, options] = name;
  const std::string text = source_prelude(device) + "#line 1\n" + source;
  std::string key = disk_cache_key(device, text, options);
  ob_program handle = load_from_disk(device, key);
  if (handle == nullptr) handle = build(device, text, source, options);
  return {handle, std::move(key)};
}

// Several threads may build the same program at once; the first one's is used. A lock meanwhile
// could deadlock with a driver that takes the interpreter lock.
Program& make_program(const ProgramName& name) {
  auto [handle, key] = load_or_build(name);
  {
    const Locked<Programs> all;
    const auto entry = all->by_name.try_emplace(name).first;
    std::unique_ptr<Program>& program = entry->second;
    if (program == nullptr) {
      program = std::make_unique<Program>(entry->first, std::move(key), handle);
      return *program;
    }
  }
  defer_status(OB_ASK(program_release, handle), "program_release");
  return *Locked<Programs>()->by_name[name];
}

}  // namespace

ob_program Program::handle() {
  if (ob_program handle = loaded_handle()) return handle;
  ob_program made = load_or_build(name_).first;
  ob_program expected = nullptr;
  if (handle_.compare_exchange_strong(expected, made)) return made;
  defer_status(OB_ASK(program_release, made), "program_release");
  return expected;
}

c10::DeviceIndex Kernel::device() const noexcept { return program_.device(); }

ob_kernel Kernel::acquire() {
  if (ob_kernel handle = spare_.exchange(nullptr, std::memory_order_acquire)) return handle;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!spares_.empty()) {
      ob_kernel handle = spares_.back();
      spares_.pop_back();
      return handle;
    }
  }
  ob_kernel handle = nullptr;
  OB_CALL(kernel_create, program_.handle(), name_.c_str(), &handle);
  learn_limits(handle);
  return handle;
}

void Kernel::learn_limits(ob_kernel handle) {
  ob_kernel_attributes attributes = {};
  attributes.struct_size = sizeof(attributes);
  const ob_status status = OB_ASK(kernel_attributes, handle, &attributes);
  try {
    check_status(status, "kernel_attributes");
  } catch (...) {
    defer_status(OB_ASK(kernel_release, handle), "kernel_release");
    throw;
  }
  const ob_device_properties& properties = device_properties(device());
  const uint64_t group = attributes.max_work_group_size;
  local_bytes_.store(
      properties.local_memory - std::min(properties.local_memory, attributes.local_memory),
      std::memory_order_relaxed);
  largest_group_.store(group == 0 ? properties.max_work_group_size : group,
                       std::memory_order_relaxed);
}

void Kernel::refuse_launch(uint64_t work_group, uint64_t local_bytes) const {
  const uint64_t largest = largest_group_.load(std::memory_order_relaxed);
  TORCH_CHECK_VALUE(work_group <= largest, "kernel ", name_, " was launched with work-groups of ",
                    work_group, " work-items, and ", device_of(device()), " runs it with at most ",
                    largest, "; launch smaller groups");
  TORCH_CHECK_VALUE(false, "kernel ", name_, " was launched with ", local_bytes,
                    " bytes of local memory in its arguments, and ", device_of(device()), " has ",
                    local_bytes_.load(std::memory_order_relaxed),
                    " for them; use less, in smaller groups");
}

void Kernel::release(ob_kernel handle) noexcept {
  ob_kernel none = nullptr;
  if (spare_.compare_exchange_strong(none, handle, std::memory_order_release)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  spares_.push_back(handle);
}

void Kernel::note_launch(uint64_t local_size) noexcept {
  if (C10_LIKELY(last_local_size_.load(std::memory_order_relaxed) == local_size)) return;
  // A reset or the exit of the process may release the program while other threads launch.
  const ob_program program = program_.loaded_handle();
  if (program == nullptr) return;
  last_local_size_.store(local_size, std::memory_order_relaxed);
  disk_cache_note_launch(device(), program_.key(), program, name_, local_size);
}

bool runs_code(c10::DeviceIndex device) {
  return driver().program_build != nullptr && device_properties(device).max_work_group_size > 0;
}

std::string source_prelude(c10::DeviceIndex device) {
  const ob_device_properties& properties = device_properties(device);
  std::string text;
  if (properties.source_prelude != nullptr) text += properties.source_prelude;
  if ((properties.dtypes & OB_DTYPE_FLOAT64) != 0) text += kFloat64;
  text += properties.addressing == OB_ADDRESSING_HANDLE ? kHandles : kPointers;
  return text;
}

Kernel& find_kernel(c10::DeviceIndex device, const std::string& source, const std::string& name,
                    const std::string& options) {
  check_fork();
  TORCH_CHECK_NOT_IMPLEMENTED(runs_code(device), "kernel ", name, " was asked for on ",
                              device_of(device),
                              ", and its driver runs no code; use the placement 'host'");
  const ProgramName program_name(device, source, options);
  Program* program = nullptr;
  {
    const Locked<Programs> all;
    const auto found = all->by_name.find(program_name);
    if (found != all->by_name.end()) program = found->second.get();
  }
  if (program == nullptr) program = &make_program(program_name);
  return program->kernel(name);
}

void release_programs(const ob_driver& table, c10::DeviceIndex device) noexcept {
  // While the driver can still give binaries. Those that a lost device does not give are compiled
  // again.
  if (device >= 0) flush_disk_cache();
  // The driver is called without a lock: it may take the interpreter lock.
  std::vector<ob_kernel> kernels;
  std::vector<ob_program> handles;
  {
    const Locked<Programs> all;
    for (const auto& [name, program] : all->by_name) {
      if (program == nullptr || (device >= 0 && program->device() != device)) continue;
      if (ob_program handle = program->take_handle()) handles.push_back(handle);
      program->for_each_kernel([&](Kernel& kernel) {
        if (ob_kernel spare = kernel.spare_.exchange(nullptr)) kernels.push_back(spare);
        std::lock_guard<std::mutex> kernel_lock(kernel.mutex_);
        kernels.insert(kernels.end(), kernel.spares_.begin(), kernel.spares_.end());
        kernel.spares_.clear();
        kernel.last_local_size_.store(0, std::memory_order_relaxed);
      });
    }
  }
  disk_cache_forget(handles);
  for (ob_kernel kernel : kernels) {
    defer_status(table.kernel_release(table.context, kernel), "kernel_release");
  }
  for (ob_program handle : handles) {
    defer_status(table.program_release(table.context, handle), "program_release");
  }
}

ProgramCounts program_counts() noexcept { return {g_built.load(), g_loaded.load()}; }

}  // namespace outboard
