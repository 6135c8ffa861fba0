// Injected faults: which calls fail or are slow, and counts of calls.
#include "faults.h"

#include <atomic>
#include <iterator>
#include <mutex>
#include <optional>
#include <sstream>
#include <time.h>

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
std::atomic<uint64_t> g_delay_us, g_limit, g_injected;
// By device: the uses from now at which it is lost; 0: it is not.
std::atomic<uint64_t> g_uses_left[kMaxDevices];
std::atomic<bool> g_lost[kMaxDevices];

bool can_be_lost(int32_t device) { return device >= 0 && device < kMaxDevices; }

}  // namespace

// ---- Calls

void sleep_us(uint64_t microseconds) {
  if (microseconds == 0) return;
  const timespec time = {static_cast<time_t>(microseconds / 1000000),
                         static_cast<long>(microseconds % 1000000 * 1000)};
  nanosleep(&time, nullptr);
}

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

std::string describe_calls() {
  std::string text = "injected " + std::to_string(g_injected) + "\n";
  for (int i = 0; i < FUNCTION_COUNT; ++i) {
    text += std::string("calls ") + kFunctionNames[i] + " " + std::to_string(g_calls[i]) + "\n";
  }
  return text;
}

uint64_t work_delay_us() { return g_delay_us; }
uint64_t memory_limit() { return g_limit; }

void reset() {
  for (int i = 0; i < FUNCTION_COUNT; ++i) g_calls[i] = g_slow_us[i] = 0;
  g_delay_us = g_limit = g_injected = 0;
  for (int32_t i = 0; i < kMaxDevices; ++i) recover(i);
  std::lock_guard lock(g_rules_mutex);
  g_rules.clear();
  g_rule_count = 0;
}

// ---- Lost devices

ob_status check_lost(int32_t device) {
  if (!can_be_lost(device) || !g_lost[device]) return OB_OK;
  return refuse(OB_DEVICE_LOST, "Fault injection has lost device %d.", device);
}

ob_status use_device(int32_t device) {
  if (!can_be_lost(device)) return OB_OK;
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

ob_status recover(int32_t device) {
  if (can_be_lost(device)) {
    g_uses_left[device] = 0;
    g_lost[device] = false;
  }
  return OB_OK;
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

}  // namespace

std::string apply_settings(const std::string& settings) {
  std::istringstream all(settings);
  for (std::string setting; std::getline(all, setting, ',');) {
    if (setting.empty() || apply_setting(setting)) continue;
    return drivers::format(
        "\"%.127s\" is no setting of fault injection; there are count, delay_us=N, limit=BYTES, "
        "slow=FUNCTION:N, fail=FUNCTION:NTH[:STATUS[:once|on|every]], "
        "lie=FUNCTION:NTH[:once|on|every] and lose=DEVICE:NTH.",
        setting.c_str());
  }
  return "";
}

}  // namespace faults
