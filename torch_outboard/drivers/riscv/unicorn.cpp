// The processor: Unicorn, an emulator that is a library (https://www.unicorn-engine.org). It is
// loaded at run time and never linked: its licence is the GPL, version 2.
#include <common/packages.h>
#include <common/settings.h>
#include <common/system.h>
#include <dlfcn.h>
#include <outboard/library_file.h>

#include <chrono>
#include <thread>

#include "riscv.h"

namespace riscv {
namespace {

// The used functions of Unicorn's interface, version 2.
#define OB_UNICORN_FUNCTIONS(DO)                                                            \
  DO(unsigned, uc_version, (unsigned* major, unsigned* minor))                              \
  DO(int, uc_open, (int architecture, int mode, void** engine))                             \
  DO(int, uc_close, (void* engine))                                                         \
  DO(int, uc_mem_map_ptr, (void* engine, uint64_t, uint64_t bytes, uint32_t, void* at))     \
  DO(int, uc_mem_unmap, (void* engine, uint64_t address, uint64_t bytes))                   \
  DO(int, uc_reg_write, (void* engine, int which, const void* value))                       \
  DO(int, uc_reg_read, (void* engine, int which, void* value))                              \
  DO(int, uc_emu_start, (void* engine, uint64_t from, uint64_t to, uint64_t us, size_t n))  \
  DO(int, uc_emu_stop, (void* engine))                                                      \
  DO(int, uc_hook_add, (void* engine, size_t*, int, void*, void*, uint64_t, uint64_t, ...)) \
  DO(const char*, uc_strerror, (int code))

struct {
#define OB_DECLARE(result, name, parameters) result(*name) parameters;
  OB_UNICORN_FUNCTIONS(OB_DECLARE)
} g_unicorn;

enum { kArchitecture = 8, kMode64 = 8, kHookInvalidMemory = 1008, kAllAccess = 7 };
enum Register { kRA = 2, kSP = 3, kA0 = 11, kA1 = 12, kFlags = 41, kStatus = 116, kPC = 190 };
// Unicorn's codes of forbidden accesses; 0: none.
enum Fault { kReadUnmapped = 19, kWriteUnmapped, kFetchUnmapped, kWriteRefused, kReadRefused };

using Clock = std::chrono::steady_clock;
std::chrono::seconds g_time_limit;

void check(int code, const char* call) {
  if (code != 0)
    fail(OB_ERROR, "The emulator's %s returned: %s.", call, g_unicorn.uc_strerror(code));
}

}  // namespace

class Unicorn {
 public:
  Unicorn(const AddressSpace& space, char* memory)
      : space_(space),
        memory_(memory),
        stack_(space.stack_bytes),
        arguments_(space.argument_bytes) {
    pthread_t thread;
    if (start_thread(&thread, "outboard_watch", &watch, this) != 0) {
      fail(OB_ERROR, "The thread that ends long launches could not be started.");
    }
    pthread_detach(thread);
  }

  void run(const Call& call) {
    if (engine_ == nullptr) open();
    load(call.image);
    std::memcpy(arguments_.data(), call.arguments.data(), call.arguments.size());
    set(kRA, space_.arguments);  // where the call ends
    set(kSP, space_.stack + space_.stack_bytes);
    set(kA0, space_.arguments);
    set(kA1, space_.arguments + call.pointers);
    fault_ = 0;
    const Clock::time_point deadline = Clock::now() + g_time_limit;
    set_deadline(deadline);
    uint64_t pc = call.entry;
    int code = 0;
    // A late watchdog may stop a call that has just begun: it is continued.
    while (code == 0 && pc != space_.arguments && Clock::now() < deadline) {
      code = g_unicorn.uc_emu_start(engine_, pc, space_.arguments, 0, 0);
      check(g_unicorn.uc_reg_read(engine_, kPC, &pc), "uc_reg_read");
    }
    set_deadline(Clock::time_point::max());
    if (code == 0 && pc == space_.arguments) return;
    g_unicorn.uc_close(engine_);
    engine_ = nullptr;
    loaded_.clear();
    report(call, code, pc);
  }

 private:
  // Programs have data, so each processor has its own copy.
  struct Loaded {
    std::weak_ptr<const Image> image;
    std::string content;
    std::vector<Image::Segment> segments;
  };

  void open() {
    check(g_unicorn.uc_open(kArchitecture, kMode64, &engine_), "uc_open");
    map(space_.memory, space_.memory_bytes, Image::kRead | Image::kWrite, memory_);
    map(space_.stack, stack_.size(), Image::kRead | Image::kWrite, stack_.data());
    map(space_.arguments, arguments_.size(), kAllAccess, arguments_.data());
    set(kStatus, 0x6000);  // floating point is on
    set(kFlags, 1);        // "inexact", which stays: the emulator need not find out any more
    size_t hook = 0;
    check(g_unicorn.uc_hook_add(engine_, &hook, kHookInvalidMemory,
                                reinterpret_cast<void*>(&note_fault), this, 1, 0),
          "uc_hook_add");
  }

  void load(const std::shared_ptr<const Image>& image) {
    if (loaded_.count(image->address) != 0) return;
    std::erase_if(loaded_, [&](const auto& entry) {
      if (!entry.second.image.expired()) return false;
      for (const Image::Segment& s : entry.second.segments) {
        check(g_unicorn.uc_mem_unmap(engine_, entry.first + s.offset, s.bytes), "uc_mem_unmap");
      }
      return true;
    });
    Loaded& loaded = loaded_[image->address];
    loaded = {image, image->content, image->segments};
    for (const Image::Segment& s : loaded.segments) {
      map(image->address + s.offset, s.bytes, s.access, loaded.content.data() + s.offset);
    }
  }

  void map(uint64_t address, uint64_t bytes, uint32_t access, void* contents) {
    check(g_unicorn.uc_mem_map_ptr(engine_, address, bytes, access, contents), "uc_mem_map_ptr");
  }

  void set(Register which, uint64_t value) {
    check(g_unicorn.uc_reg_write(engine_, which, &value), "uc_reg_write");
  }

  static bool note_fault(void*, int kind, uint64_t address, int, int64_t, void* self) {
    static_cast<Unicorn*>(self)->fault_ = kind;
    static_cast<Unicorn*>(self)->fault_address_ = address;
    return false;  // nothing was done about it: the call ends
  }

  [[noreturn]] void report(const Call& call, int code, uint64_t pc) const {
    std::string what =
        drivers::format("executed an unknown instruction (%s)", g_unicorn.uc_strerror(code));
    const char* verb = fault_ == kWriteUnmapped || fault_ == kWriteRefused ? "wrote to"
                       : fault_ == kReadUnmapped || fault_ == kReadRefused ? "read from"
                                                                           : "jumped to";
    if (fault_ != 0)
      what = drivers::format("%s address 0x%" PRIx64 ", where it may not,", verb, fault_address_);
    if (code == 0) {
      what = drivers::format("ran longer than %" PRId64 " s, which OUTBOARD_RISCV_TIME_LIMIT sets,",
                             static_cast<int64_t>(g_time_limit.count()));
    }
    const uint64_t offset = pc - call.image->address;
    const bool inside = offset < call.image->content.size();
    fail(OB_ERROR, "Kernel %s %s and was ended at pc 0x%" PRIx64 "%s.", call.kernel.c_str(),
         what.c_str(), pc,
         inside ? drivers::format(" (0x%" PRIx64 " of its program)", offset).c_str() : "");
  }

  void set_deadline(Clock::time_point deadline) {
    std::lock_guard lock(deadline_mutex_);
    deadline_ = deadline;
  }

  // Calls are short and many, so no thread is woken for each: one checks periodically.
  static void* watch(void* argument) {
    auto* self = static_cast<Unicorn*>(argument);
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      std::lock_guard lock(self->deadline_mutex_);
      if (Clock::now() > self->deadline_) g_unicorn.uc_emu_stop(self->engine_);
    }
  }

  const AddressSpace space_;
  char* memory_;
  std::vector<char> stack_, arguments_;
  void* engine_ = nullptr;
  std::map<uint64_t, Loaded> loaded_;  // by address
  int fault_ = 0;
  uint64_t fault_address_ = 0;
  std::mutex deadline_mutex_;
  Clock::time_point deadline_ = Clock::time_point::max();  // earlier: `engine_` runs
};

void load_unicorn(uint64_t time_limit_seconds) {
  g_time_limit = std::chrono::seconds(time_limit_seconds);
  std::string path = drivers::text_setting("OUTBOARD_RISCV_UNICORN");
  if (path.empty()) path = drivers::file_of_package("unicorn/lib/libunicorn.so.2");
  if (path.empty()) path = "libunicorn.so.2";
  const char* advice =
      "`pip install unicorn`, or set OUTBOARD_RISCV_UNICORN to a libunicorn.so.2 of version 2";
  const char* problem = ob_library_problem(path.c_str());
  if (problem != nullptr) fail(OB_UNSUPPORTED, "%s %s: %s", path.c_str(), problem, advice);
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: a thread stays
  if (library == nullptr) {
    fail(OB_UNSUPPORTED, "the emulator Unicorn was not found (%s): %s", dlerror(), advice);
  }
#define OB_TAKE(result, name, parameters)                                             \
  g_unicorn.name = reinterpret_cast<decltype(g_unicorn.name)>(dlsym(library, #name)); \
  if (g_unicorn.name == nullptr) {                                                    \
    fail(OB_UNSUPPORTED, "%s has no function " #name ": %s", path.c_str(), advice);   \
  }
  OB_UNICORN_FUNCTIONS(OB_TAKE)
  unsigned major = 0, minor = 0;
  g_unicorn.uc_version(&major, &minor);
  if (major == 2) return;
  fail(OB_UNSUPPORTED, "%s is Unicorn %u.%u: %s", path.c_str(), major, minor, advice);
}

void run(Device& device, const Call& call) {
  std::lock_guard lock(device.processor_mutex);
  if (!device.processor) {
    device.processor = std::make_shared<Unicorn>(device.space, device.contents);
  }
  device.processor->run(call);
}

}  // namespace riscv
