// The processor: Unicorn, an emulator that is a library (https://www.unicorn-engine.org). It is
// loaded at run time and never linked: its licence is the GPL, version 2.
#include <dlfcn.h>
#include <outboard/library_file.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include <chrono>
#include <cinttypes>
#include <cstring>

#include "riscv.h"

namespace riscv {
namespace {

// What is used of Unicorn's interface, version 2.
enum { kArchitecture = 8, kMode64 = 8, kHookInvalidMemory = 1008, kAllAccess = 7 };
enum Register { kRA = 2, kSP = 3, kA0 = 11, kA1 = 12, kFlags = 41, kStatus = 116, kPC = 190 };
enum MemoryFault { kRead = 19, kWrite, kFetch, kWriteProtected, kReadProtected, kFetchProtected };

struct Library {
  unsigned (*uc_version)(unsigned* major, unsigned* minor);
  int (*uc_open)(int architecture, int mode, void** engine);
  int (*uc_close)(void* engine);
  int (*uc_mem_map_ptr)(void* engine, uint64_t address, uint64_t bytes, uint32_t access, void* at);
  int (*uc_mem_unmap)(void* engine, uint64_t address, uint64_t bytes);
  int (*uc_reg_write)(void* engine, int which, const void* value);
  int (*uc_reg_read)(void* engine, int which, void* value);
  int (*uc_emu_start)(void* engine, uint64_t begin, uint64_t until, uint64_t timeout, size_t count);
  int (*uc_emu_stop)(void* engine);
  int (*uc_hook_add)(void* engine, size_t* hook, int kind, void* function, void* argument,
                     uint64_t begin, uint64_t end, ...);
  const char* (*uc_strerror)(int code);
};

Library g_unicorn = {};

template <class Function>
bool take(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

void check(int code, const char* call) {
  if (code == 0) return;
  fail(OB_ERROR, "The emulator's %s answered: %s.", call, g_unicorn.uc_strerror(code));
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class Unicorn : public Processor {
 public:
  Unicorn(const AddressSpace& space, char* memory) : space_(space), memory_(memory) {
    private_.resize(space.stack_bytes + space.argument_bytes);
    // Launches are short and many: the thread that ends those without end looks now and then.
    sigset_t all, previous;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &previous);
    std::thread(&Unicorn::watch, this).detach();  // a processor stays until the process ends
    pthread_sigmask(SIG_SETMASK, &previous, nullptr);
  }

  std::string run(const Call& call) override {
    if (engine_ == nullptr) open();
    load(call.image);
    std::memcpy(argument_contents(), call.arguments.data(), call.arguments.size());
    set(kRA, space_.arguments);
    set(kSP, space_.stack);
    set(kA0, space_.arguments);
    set(kA1, space_.arguments + call.pointers);
    fault_ = 0;
    const int64_t limit = static_cast<int64_t>(g_settings.time_limit);
    const int64_t deadline = now() + limit;
    set_deadline(deadline);
    int code = 0;
    uint64_t pc = call.entry;
    bool expired = false;
    while (code == 0 && pc != space_.arguments && !expired) {
      code = g_unicorn.uc_emu_start(engine_, pc, space_.arguments, 0, 0);
      check(g_unicorn.uc_reg_read(engine_, kPC, &pc), "uc_reg_read");
      expired = now() > deadline;  // else the watchdog was late and meant the call before
    }
    set_deadline(0);
    if (code == 0 && pc == space_.arguments) return "";
    close();  // the next call gets a new one
    return describe(call, code, pc, limit);
  }

 private:
  struct Loaded {
    std::weak_ptr<const Image> image;
    std::string content;
    std::vector<Image::Segment> segments;
  };

  void open() {
    check(g_unicorn.uc_open(kArchitecture, kMode64, &engine_), "uc_open");
    map(space_.memory, space_.memory_bytes, Image::kRead | Image::kWrite, memory_);
    map(space_.stack - space_.stack_bytes, space_.stack_bytes, Image::kRead | Image::kWrite,
        private_.data());
    map(space_.arguments, space_.argument_bytes, kAllAccess, argument_contents());
    set(kStatus, 0x6000);  // floating point is on
    set(kFlags, 1);        // "inexact", which stays: operations need not find out any more
    size_t hook = 0;
    check(g_unicorn.uc_hook_add(engine_, &hook, kHookInvalidMemory,
                                reinterpret_cast<void*>(&note_fault), this, 1, 0),
          "uc_hook_add");
  }

  void close() {
    g_unicorn.uc_close(engine_);
    engine_ = nullptr;
    loaded_.clear();
  }

  // Programs have data, so each processor has its own copy.
  void load(const std::shared_ptr<const Image>& image) {
    if (loaded_.count(image->address()) != 0) return;
    std::erase_if(loaded_, [&](const auto& entry) {
      if (!entry.second.image.expired()) return false;
      for (const Image::Segment& s : entry.second.segments) {
        check(g_unicorn.uc_mem_unmap(engine_, entry.first + s.offset, s.bytes), "uc_mem_unmap");
      }
      return true;
    });
    Loaded& loaded = loaded_[image->address()];
    loaded = {image, image->content(), image->segments()};
    for (const Image::Segment& s : loaded.segments) {
      map(image->address() + s.offset, s.bytes, s.access, loaded.content.data() + s.offset);
    }
  }

  void map(uint64_t address, uint64_t bytes, uint32_t access, void* contents) {
    check(g_unicorn.uc_mem_map_ptr(engine_, address, bytes, access, contents), "uc_mem_map_ptr");
  }

  void set(Register which, uint64_t value) {
    check(g_unicorn.uc_reg_write(engine_, which, &value), "uc_reg_write");
  }

  char* argument_contents() { return private_.data() + space_.stack_bytes; }

  static bool note_fault(void*, int kind, uint64_t address, int, int64_t, void* self) {
    static_cast<Unicorn*>(self)->fault_ = kind;
    static_cast<Unicorn*>(self)->fault_address_ = address;
    return false;  // nothing was done about it: the call ends
  }

  std::string describe(const Call& call, int code, uint64_t pc, int64_t limit) const {
    std::string where = format("pc 0x%" PRIx64, pc);
    const uint64_t base = call.image->address();
    if (pc >= base && pc - base < call.image->content().size()) {
      where += format(", 0x%" PRIx64 " of its program", pc - base);
    }
    const char* kernel = call.kernel.c_str();
    if (code == 0) {
      return format(
          "Kernel %s was ended at %s because it ran longer than %lld s; OUTBOARD_RISCV_TIME_LIMIT "
          "sets the limit.",
          kernel, where.c_str(), static_cast<long long>(limit / 1000));
    }
    const bool writes = fault_ == kWrite || fault_ == kWriteProtected;
    if (fault_ == kFetch || fault_ == kFetchProtected) {
      return format("Kernel %s jumped to address 0x%" PRIx64 ", where there is no code.", kernel,
                    fault_address_);
    }
    if (fault_ != 0) {
      return format("Kernel %s %s address 0x%" PRIx64 ", which it may not, at %s.", kernel,
                    writes ? "wrote to" : "read from", fault_address_, where.c_str());
    }
    return format("Kernel %s came upon an instruction that the processor does not have, at %s (%s).",
                  kernel, where.c_str(), g_unicorn.uc_strerror(code));
  }

  void set_deadline(int64_t deadline) {
    std::lock_guard lock(deadline_mutex_);
    deadline_ = deadline;
  }

  void watch() {
    const auto period = std::chrono::milliseconds(std::min(g_settings.time_limit / 4, uint64_t{1000}));
    for (;;) {
      std::this_thread::sleep_for(period);
      std::lock_guard lock(deadline_mutex_);
      if (deadline_ != 0 && now() > deadline_) g_unicorn.uc_emu_stop(engine_);
    }
  }

  const AddressSpace space_;
  char* memory_;
  std::vector<char> private_;  // stack and arguments
  void* engine_ = nullptr;
  std::map<uint64_t, Loaded> loaded_;  // by address
  int fault_ = 0;
  uint64_t fault_address_ = 0;
  std::mutex deadline_mutex_;
  int64_t deadline_ = 0;  // 0: nothing runs, and the engine may be gone
};

}  // namespace

void load_unicorn(const Settings& settings) {
  const char* path = settings.unicorn.empty() ? "libunicorn.so.2" : settings.unicorn.c_str();
  const char* advice = "`pip install unicorn`, or set OUTBOARD_RISCV_UNICORN to a libunicorn.so.2";
  if (const char* problem = ob_library_problem(path)) {
    fail(OB_UNSUPPORTED, "%s, which shall emulate the processor, %s: %s", path, problem, advice);
  }
  // Never closed: a thread stays.
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(OB_UNSUPPORTED, "the emulator Unicorn was not found (%s): %s", dlerror(), advice);
  }
  bool complete = true;
#define TAKE(name) complete = take(library, #name, g_unicorn.name) && complete
  TAKE(uc_version);
  TAKE(uc_open);
  TAKE(uc_close);
  TAKE(uc_mem_map_ptr);
  TAKE(uc_mem_unmap);
  TAKE(uc_reg_write);
  TAKE(uc_reg_read);
  TAKE(uc_emu_start);
  TAKE(uc_emu_stop);
  TAKE(uc_hook_add);
  TAKE(uc_strerror);
#undef TAKE
  if (!complete) fail(OB_UNSUPPORTED, "%s is no library of Unicorn: %s", path, advice);
  unsigned major = 0, minor = 0;
  g_unicorn.uc_version(&major, &minor);
  if (major != 2) {
    fail(OB_UNSUPPORTED, "%s is Unicorn %u.%u, and version 2 is needed: %s", path, major, minor,
         advice);
  }
}

std::string unicorn_version() {
  unsigned major = 0, minor = 0;
  g_unicorn.uc_version(&major, &minor);
  return format("Unicorn %u.%u", major, minor);
}

std::unique_ptr<Processor> make_unicorn(const AddressSpace& space, char* memory) {
  return std::make_unique<Unicorn>(space, memory);
}

}  // namespace riscv
