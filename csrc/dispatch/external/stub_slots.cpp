#include "dispatch/external/stub_slots.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

#include <map>
#include <sstream>
#include <string_view>

#include "dispatch/external/decline.h"
#include "dispatch/external/following_forms.h"

namespace outboard {
namespace {

// What the kit put into slots, by stub. Filled before any thread can ask.
std::map<void*, void*>& own_kernels() {
  static auto* kernels = new std::map<void*, void*>;
  return *kernels;
}

// Stubs are variables of at::native, or of a namespace in it: "add_stub", "cpublas::gemm_stub".
void* find_stub(const std::string& name) {
  std::string mangled = "_ZN2at6native";
  std::string_view rest = name;
  for (size_t end = 0; end != std::string_view::npos;) {
    end = rest.find("::");
    const std::string_view part = rest.substr(0, end);
    mangled += std::to_string(part.size());
    mangled += part;
    if (end != std::string_view::npos) rest.remove_prefix(end + 2);
  }
  return dlsym(RTLD_DEFAULT, (mangled + "E").c_str());
}

StubSlot slot_of_stub(const char* name, void* stub) {
  const auto own = own_kernels().find(stub);
  return {name, stub, own != own_kernels().end() ? own->second : nullptr};
}

void connect(const std::string& name, const StubSlot& slot) {
  Operator& entry = router_entry(name);
  const StubUses* before = entry.stubs.load();
  StubUses uses = before != nullptr ? *before : StubUses();
  uses.slots.push_back(slot);
  entry.stubs.store(new StubUses(std::move(uses)));
}

thread_local bool t_stub_run = false;

class StubRun {
 public:
  StubRun() noexcept : before_(std::exchange(t_stub_run, true)) {}
  ~StubRun() { t_stub_run = before_; }
  StubRun(const StubRun&) = delete;
  StubRun& operator=(const StubRun&) = delete;

 private:
  const bool before_;
};

}  // namespace

void fill_slot(void* stub, void* function) {
  void*& slot = slot_of(stub);
  if (slot != nullptr) return;
  slot = function;
  own_kernels()[stub] = function;
}

bool in_stub_run() noexcept { return t_stub_run; }

void connect_stubs() {
  for (const auto& [name, overloads] : kStubOperators) {
    void* stub = find_stub(name);
    if (stub == nullptr) continue;
    const StubSlot slot = slot_of_stub(name, stub);
    std::istringstream words(overloads);
    for (std::string overload; words >> overload;) {
      const size_t dot = overload.find('.');
      const auto op = c10::Dispatcher::singleton().findSchema(
          {"aten::" + overload.substr(0, dot),
           dot == std::string::npos ? "" : overload.substr(dot + 1)});
      if (!op.has_value()) continue;
      connect("aten::" + overload, slot);
      for (const c10::OperatorHandle& form : following_forms(*op)) {
        connect(c10::toString(form.operator_name()), slot);
      }
    }
  }
}

void disconnect_stubs() {
  for (const std::string& name : router_names()) router_entry(name).stubs.store(nullptr);
}

void run_with_stubs(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const StubRun run;
  const at::AutoDispatchBelowADInplaceOrView guard;
  try {
    // PyTorch has the implementations that end in stubs under this key, and they take tensors of
    // any device.
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  } catch (const c10::Error& error) {
    if (std::string_view(error.what_without_backtrace()).starts_with("DispatchStub: ")) {
      throw Declined();
    }
    throw;
  }
}

std::vector<std::string> brought_stubs(const std::string& overload) {
  std::vector<std::string> names;
  const StubUses* stubs = router_entry(overload).stubs.load();
  if (stubs == nullptr) return names;
  for (const StubSlot& slot : stubs->slots) {
    if (slot.brought_by_others()) names.push_back(slot.name);
  }
  return names;
}

StubState stub_state(const std::string& name) {
  StubState state;
  void* stub = find_stub(name);
  if (stub == nullptr) return state;
  state.exists = true;
  void* function = __atomic_load_n(&slot_of(stub), __ATOMIC_RELAXED);
  if (function == nullptr) return state;
  state.filled = true;
  state.by_kit = slot_of_stub(name.c_str(), stub).own == function;
  Dl_info info = {};
  if (dladdr(function, &info) != 0 && info.dli_fname != nullptr) state.library = info.dli_fname;
  return state;
}

}  // namespace outboard
