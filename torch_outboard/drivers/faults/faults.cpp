// Fault injection: a table around any driver's table, with faults of drivers on request.
//
// `ob_wrap_driver` returns the table; functions that the wrapped driver lacks stay NULL. The table
// always counts calls, records live objects, and returns OB_INVALID_ARGUMENT for misuse: objects
// that are not alive, and transfers outside any allocation unless the device adopts host memory.
// Faults are set by the environment variable OUTBOARD_FAULTS or ob_faults_configure, as a
// comma-separated list:
//
//   count
//       Nothing more.
//   delay_us=N
//       Work on a queue starts N microseconds later than it could, so that a forgotten
//       synchronization shows. Needs `host_callback` of the wrapped driver, and is
//       refused without.
//   limit=BYTES
//       `allocate` gives no more than this on each device; 0: no limit.
//   slow=FUNCTION:N
//       A call takes N microseconds longer. FUNCTION is a name of the table, or "*".
//   fail=FUNCTION:NTH[:STATUS[:REPEAT]]
//       The NTH call from now fails. STATUS is a name such as out_of_memory or its number; default
//       error. REPEAT is once (default), on (all calls from the NTH on) or every (each NTH call).
//   lie=FUNCTION:NTH[:REPEAT]
//       The NTH call from now answers OK and does nothing.
//   lose=DEVICE:NTH
//       The NTH call from now that gives work to a queue of the device, or asks or waits for one,
//       finds the device lost, and so does every later call that needs it, until device_reset of
//       the wrapped driver.
//
// A call that fails this way has not happened, except for those that wait or destroy: they do their
// work and then report failure, as drivers do when earlier work has failed. A lie about those does
// not wait and destroys nothing.
#include "faults.h"

#include <atomic>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <time.h>
#include <tuple>
#include <type_traits>

namespace faults {
namespace {

constexpr const char* kFunctionNames[FUNCTION_COUNT] = {
#define FAULTS_NAME(kind, name, ...) #name,
    FAULTS_FUNCTIONS(FAULTS_NAME)
#undef FAULTS_NAME
};

// In the order of their numbers in driver.h.
constexpr const char* kStatusNames[] = {
    "ok",          "not_ready",    "out_of_memory", "invalid_argument",
    "unsupported", "build_failed", "device_lost",   "error"};

enum Repetition { ONCE, ON, EVERY };
constexpr const char* kRepetitionNames[] = {"once", "on", "every"};

// The answer of begin_call for a call that has to answer OK and do nothing.
constexpr ob_status LIE = -1;

constexpr int kAnyFunction = FUNCTION_COUNT;
constexpr size_t kMaxRules = 64;

struct Rule {
  int called = kAnyFunction;
  uint64_t nth = 0, seen = 0;
  ob_status status = OB_ERROR;
  int repeat = ONCE;

  bool applies(Function to) {
    if (called != kAnyFunction && called != to) return false;
    ++seen;
    return repeat == ONCE ? seen == nth : repeat == ON ? seen >= nth : seen % nth == 0;
  }
};

// Never destroyed: calls come while the process exits.
std::mutex& g_rules_mutex = *new std::mutex;
std::vector<Rule>& g_rules = *new std::vector<Rule>;
std::atomic<size_t> g_rule_count;  // read without the mutex

std::atomic<uint64_t> g_calls[FUNCTION_COUNT], g_slow_us[FUNCTION_COUNT];
std::atomic<uint64_t> g_delay_us, g_injected;
std::atomic<uint64_t> g_limit;  // bytes per device; 0: none
// By device: the uses from now at which it is lost; 0: it is not.
std::atomic<uint64_t> g_uses_left[kMaxDevices];
std::atomic<bool> g_lost[kMaxDevices];

// ---- Calls

void sleep_us(uint64_t microseconds) {
  if (microseconds == 0) return;
  const timespec time = {static_cast<time_t>(microseconds / 1000000),
                         static_cast<long>(microseconds % 1000000 * 1000)};
  nanosleep(&time, nullptr);
}

// Counts a call, makes it slow, and answers with the status that it must fail with, LIE or OB_OK.
ob_status begin_call(Function called) {
  g_calls[called]++;
  sleep_us(g_slow_us[called]);
  if (g_rule_count == 0) return OB_OK;
  ob_status status = OB_OK;
  {
    std::lock_guard lock(g_rules_mutex);
    for (Rule& rule : g_rules) {
      if (rule.applies(called) && status == OB_OK) status = rule.status;
    }
  }
  if (status == OB_OK) return OB_OK;
  g_injected++;
  if (status == LIE) return LIE;
  return refuse(status, "Fault injection made this call of %s fail.", kFunctionNames[called]);
}

// Lines: "calls FUNCTION COUNT" for each function, and "injected COUNT".
std::string describe_calls() {
  std::string text = "injected " + std::to_string(g_injected) + "\n";
  for (int i = 0; i < FUNCTION_COUNT; ++i) {
    text += std::string("calls ") + kFunctionNames[i] + " " + std::to_string(g_calls[i]) + "\n";
  }
  return text;
}

// Waits for all queues of a device of the wrapped driver, and ignores failures.
void wait_for_device(int32_t device) {
  if (g_driver.device_synchronize != nullptr) {
    (void)g_driver.device_synchronize(g_driver.context, device);
    return;
  }
  for (const uint64_t queue : live_objects_of(QUEUE, device)) {
    (void)g_driver.queue_synchronize(g_driver.context, reinterpret_cast<ob_queue>(queue));
  }
}

ob_status recover(int32_t device) {
  if (is_device(device)) {
    g_uses_left[device] = 0;
    g_lost[device] = false;
  }
  return OB_OK;
}

void reset() {
  for (int i = 0; i < FUNCTION_COUNT; ++i) g_calls[i] = g_slow_us[i] = 0;
  g_delay_us = g_limit = g_injected = 0;
  for (int32_t i = 0; i < kMaxDevices; ++i) recover(i);
  std::lock_guard lock(g_rules_mutex);
  g_rules.clear();
  g_rule_count = 0;
}

}  // namespace

// ---- For objects.cpp

ob_status delay(ob_queue queue) {
  const uint64_t microseconds = g_delay_us;
  if (microseconds == 0 || g_driver.host_callback == nullptr) return OB_OK;
  const auto sleep = [](void* time) { sleep_us(reinterpret_cast<uintptr_t>(time)); };
  return g_driver.host_callback(g_driver.context, queue, sleep,
                                reinterpret_cast<void*>(microseconds));
}

ob_status check_lost(int32_t device) {
  if (!is_device(device) || !g_lost[device]) return OB_OK;
  return refuse(OB_DEVICE_LOST, "Fault injection has lost device %d.", device);
}

ob_status use_device(int32_t device) {
  if (!is_device(device)) return OB_OK;
  uint64_t left = g_uses_left[device];
  while (left > 0 && !g_uses_left[device].compare_exchange_weak(left, left - 1)) {
  }
  if (left == 1) {
    wait_for_device(device);  // nothing is pending on a lost device
    g_injected++;
    g_lost[device] = true;
  }
  return check_lost(device);
}

// ---- Settings

namespace {

template <size_t count>
std::optional<int> find_name(const char* const (&names)[count], const std::string& name) {
  const auto found = std::find(std::begin(names), std::end(names), name);
  if (found == std::end(names)) return std::nullopt;
  return static_cast<int>(found - std::begin(names));
}

// The value of a setting, in parts between colons, which are read one after another.
class Parts {
 public:
  explicit Parts(const std::string& value) : stream_(value) {}

  bool next() { return static_cast<bool>(std::getline(stream_, part_, ':')); }
  const std::string& part() const { return part_; }

  std::optional<uint64_t> as_number() const {
    const bool digits = part_.find_first_not_of("0123456789") == std::string::npos;
    if (part_.empty() || !digits) return std::nullopt;
    return std::strtoull(part_.c_str(), nullptr, 10);
  }
  // False if there is none.
  bool number(uint64_t& value) {
    const std::optional<uint64_t> read = next() ? as_number() : std::nullopt;
    value = read.value_or(0);
    return read.has_value();
  }
  // A function of the contract, or "*".
  bool function(int& called) {
    if (!next()) return false;
    const std::optional<int> found = part_ == "*" ? kAnyFunction : find_name(kFunctionNames, part_);
    called = found.value_or(0);
    return found.has_value();
  }

 private:
  std::istringstream stream_;
  std::string part_;
};

// FUNCTION:MICROSECONDS
bool apply_slow(Parts parts) {
  int called;
  uint64_t microseconds;
  if (!parts.function(called) || !parts.number(microseconds)) return false;
  for (int i = 0; i < FUNCTION_COUNT; ++i) {
    if (called == i || called == kAnyFunction) g_slow_us[i] = microseconds;
  }
  return true;
}

// FUNCTION:NTH[:STATUS[:REPEAT]], without STATUS for a lie.
bool apply_fault(Parts parts, bool lie) {
  Rule rule;
  if (!parts.function(rule.called) || !parts.number(rule.nth) || rule.nth == 0) return false;
  if (lie) {
    rule.status = LIE;
  } else if (parts.next()) {
    const std::optional<int> named = find_name(kStatusNames, parts.part());
    const uint64_t status = named ? *named : parts.as_number().value_or(0);
    if (status <= OB_NOT_READY || status >= std::size(kStatusNames)) return false;
    rule.status = static_cast<ob_status>(status);
  }
  if (parts.next()) {
    const std::optional<int> repeat = find_name(kRepetitionNames, parts.part());
    if (!repeat) return false;
    rule.repeat = *repeat;
  }
  std::lock_guard lock(g_rules_mutex);
  if (g_rules.size() == kMaxRules) return false;
  g_rules.push_back(rule);
  g_rule_count = g_rules.size();
  return true;
}

// DEVICE:NTH
bool apply_loss(Parts parts) {
  uint64_t device, nth;
  if (!parts.number(device) || device >= kMaxDevices || !parts.number(nth) || nth == 0) {
    return false;
  }
  g_uses_left[device] = nth;
  return true;
}

bool apply_setting(const std::string& setting) {
  if (setting == "count") return true;
  const size_t equals = setting.find('=');
  if (equals == std::string::npos) return false;
  const std::string name = setting.substr(0, equals);
  Parts value(setting.substr(equals + 1));
  if (name == "slow") return apply_slow(std::move(value));
  if (name == "fail" || name == "lie") return apply_fault(std::move(value), name == "lie");
  if (name == "lose") return apply_loss(std::move(value));
  uint64_t number;
  if ((name != "delay_us" && name != "limit") || !value.number(number)) return false;
  (name == "limit" ? g_limit : g_delay_us) = number;
  return true;
}

// Returns the problem, "" for none.
std::string apply_settings(const std::string& settings) {
  std::istringstream all(settings);
  for (std::string setting; std::getline(all, setting, ',');) {
    if (setting.empty() || apply_setting(setting)) continue;
    return drivers::format(
        "\"%.127s\" is not a setting of fault injection; there are count, delay_us=N, limit=BYTES, "
        "slow=FUNCTION:N, fail=FUNCTION:NTH[:STATUS[:once|on|every]], "
        "lie=FUNCTION:NTH[:once|on|every] and lose=DEVICE:NTH.",
        setting.c_str());
  }
  return "";
}

// ---- Arguments

template <class T>
ob_status check_argument(T) {
  return OB_OK;
}
ob_status check_argument(ob_queue queue) { return check_queue(queue); }
ob_status check_argument(ob_event event) { return check_event(event); }
ob_status check_argument(ob_program program) { return check_live(PROGRAM, key_of(program)); }
ob_status check_argument(ob_kernel kernel) { return check_live(KERNEL, key_of(kernel)); }
ob_status check_argument(ob_graph graph) { return check_live(GRAPH, key_of(graph)); }
ob_status check_argument(ob_communicator communicator) {
  return check_live(COMMUNICATOR, key_of(communicator));
}

template <class... Arguments>
ob_status check_arguments(Arguments... arguments) {
  ob_status status = OB_OK;
  (void)(... && ((status = check_argument(arguments)) == OB_OK));
  return status;
}

template <class... Arguments>
ob_queue queue_of(Arguments... arguments) {
  return std::get<ob_queue>(std::tuple(arguments...));
}

// The device of a new object; -1: of none.
template <class First, class... Others>
int32_t device_of(First first, Others...) {
  if constexpr (requires { first->device; }) return first->device;
  if constexpr (std::is_same_v<First, int32_t>) return first;
  return -1;
}

// Its bytes in an argument, or in a struct of one; 0: none.
uint64_t bytes_of() { return 0; }
template <class First, class... Others>
uint64_t bytes_of(First first, Others... others) {
  if constexpr (requires { first->bytes; }) return first->bytes;
  if constexpr (std::is_same_v<First, uint64_t>) return first;
  return bytes_of(others...);
}

// The key of the object to destroy: the first address or pointer.
template <class First, class... Others>
uint64_t key_in(First first, Others... others) {
  if constexpr (std::is_same_v<First, int32_t>) {
    return key_in(others...);
  } else {
    return key_of(first);
  }
}

// That of a new one, which is stored through the last argument.
template <class... Arguments>
uint64_t created_key(Arguments... arguments) {
  const auto last = std::get<sizeof...(arguments) - 1>(std::tuple(arguments...));
  if constexpr (std::is_pointer_v<decltype(last)>) return key_of(*last);
  return key_in(arguments...);
}

// ---- Hooks

constexpr auto nothing = [](auto...) -> ob_status { return OB_OK; };

ob_status note_devices() {
  int32_t count = 0;
  ob_status status = g_driver.device_count(g_driver.context, &count);
  for (int32_t i = 0; i < count && status == OB_OK; ++i) {
    ob_device_properties properties = {};
    properties.struct_size = sizeof properties;
    status = g_driver.device_properties(g_driver.context, i, &properties);
    set_adopts_host_memory(i, properties.features & OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY);
  }
  return status;
}

ob_status check_limit(int32_t device, uint64_t bytes) {
  const uint64_t limit = g_limit;
  if (limit == 0) return OB_OK;
  const uint64_t used = live_bytes(device);
  if (used <= limit && bytes <= limit - used) return OB_OK;
  return refuse(OB_OUT_OF_MEMORY,
                "Fault injection limits device %" PRId32 " to %" PRIu64 " bytes; %" PRIu64
                " are in use, and %" PRIu64 " more were asked for.",
                device, limit, used, bytes);
}

ob_status limit_memory_info(int32_t device, uint64_t* free_bytes, uint64_t* total_bytes) {
  const uint64_t limit = g_limit, used = live_bytes(device);
  if (limit == 0 || limit >= *total_bytes) return OB_OK;
  *total_bytes = limit;
  *free_bytes = std::min(*free_bytes, limit - std::min(used, limit));
  return OB_OK;
}

// ---- The kinds of wrappers in FAULTS_FUNCTIONS

template <Function called, auto check = nothing, auto after = nothing>
constexpr auto CALL = [](auto inner, auto... arguments) -> ob_status {
  const ob_status injected = begin_call(called);
  if (injected == LIE) return OB_OK;
  return injected ?: check_arguments(arguments...) ?: check(arguments...) ?: inner()
      ?: after(arguments...);
};

template <Function called, auto check = nothing>
constexpr auto WORK = [](auto inner, auto... arguments) -> ob_status {
  constexpr auto check_and_delay = [](auto... same) {
    return check(same...) ?: delay(queue_of(same...));
  };
  return CALL<called, check_and_delay>(inner, arguments...);
};

template <Function called, ObjectKind kind, auto check = nothing>
constexpr auto CREATE = [](auto inner, auto... arguments) -> ob_status {
  constexpr auto check_device = [](auto... same) {
    return check_lost(device_of(same...)) ?: check(same...);
  };
  constexpr auto add = [](auto... same) -> ob_status {
    add_object(kind, created_key(same...), {device_of(same...), bytes_of(same...)});
    return OB_OK;
  };
  return CALL<called, check_device, add>(inner, arguments...);
};

template <Function called, auto check = nothing>
constexpr auto WAIT = [](auto inner, auto... arguments) -> ob_status {
  const ob_status injected = begin_call(called);
  if (injected == LIE) return OB_OK;
  if (const ob_status status = check_arguments(arguments...) ?: check(arguments...)) return status;
  const ob_status status = inner();
  if (status != OB_OK) layers::t_message_is_ours = false;
  return status ?: injected;
};

// Out of the list first: once destroyed, another thread may get the same handle.
template <Function called, ObjectKind kind>
constexpr auto DESTROY = [](auto inner, auto... arguments) -> ob_status {
  const ob_status injected = begin_call(called);
  if (injected == LIE) return OB_OK;
  const uint64_t key = key_in(arguments...);
  Object destroyed;
  if (!remove_object(kind, key, destroyed)) return not_alive(kind, key);
  const ob_status status = inner();
  if (status != OB_OK) layers::t_message_is_ours = false;
  // Other failures are those of work, of which the end of an object informs.
  if (status == OB_INVALID_ARGUMENT) add_object(kind, key, destroyed);
  return status ?: injected;
};

// The problem of the settings; "" where they suit the wrapped driver.
std::string settings_problem(const std::string& problem) {
  if (!problem.empty() || g_delay_us == 0 || g_driver.name == nullptr ||
      g_driver.host_callback != nullptr) {
    return problem;
  }
  return drivers::format(
      "delay_us delays work by `host_callback`, which the driver \"%.100s\" lacks; leave it out.",
      g_driver.name);
}

const char* stored(std::string text) {
  static thread_local std::string storage;
  storage = std::move(text);
  return storage.c_str();
}

}  // namespace
}  // namespace faults

#define FAULTS_EXPORT extern "C" __attribute__((visibility("default")))

// ---- For the loader and for tests. Texts are valid until the thread's next call.

FAULTS_EXPORT const ob_driver* ob_wrap_driver(const ob_driver* wrapped, const char** problem) {
  using namespace faults;
  static ob_driver table;
  table = layers::copy_table(*wrapped);
#define FAULTS_WRAP(kind, name, ...) \
  OB_WRAP(table, name, kind<FUNCTION_##name __VA_OPT__(, ) __VA_ARGS__>)
  FAULTS_FUNCTIONS(FAULTS_WRAP)
#undef FAULTS_WRAP
  const char* settings = std::getenv("OUTBOARD_FAULTS");
  const std::string wrong = settings_problem(settings == nullptr ? "" : apply_settings(settings));
  if (wrong.empty()) return &table;
  *problem = stored("OUTBOARD_FAULTS: " + wrong);
  return nullptr;
}

// NULL, or the problem of the settings.
FAULTS_EXPORT const char* ob_faults_configure(const char* settings) {
  const std::string problem = faults::settings_problem(faults::apply_settings(settings));
  return problem.empty() ? nullptr : faults::stored(problem);
}

// Clears settings and counts; live objects stay recorded.
FAULTS_EXPORT void ob_faults_reset() { faults::reset(); }

// The lines of describe_calls and describe_objects.
FAULTS_EXPORT const char* ob_faults_report() {
  return faults::stored(faults::describe_calls() + faults::describe_objects());
}
