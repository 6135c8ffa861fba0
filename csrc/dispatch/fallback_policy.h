// Which operators may run on the host: a policy per placement, and lists of operators that are
// always allowed or denied.
#pragma once

#include <string>
#include <vector>

#include "dispatch/router.h"
#include "runtime/export.h"

namespace outboard {

enum class Policy : uint8_t {
  kAllow = 0,
  kWarn = 1,   // once per operator
  kError = 2,  // NotImplementedError
};

// The policy of kHost (default: allow) or kCopied (default: warn). Process-wide.
OUTBOARD_API Policy fallback_policy(Placement placement);
OUTBOARD_API void set_fallback_policy(Placement placement, Policy policy);

enum class Listing : uint8_t { kNone = 0, kAllowed = 1, kDenied = 2 };

// Adds an overload ("aten::add.Tensor") or all overloads of an operator ("aten::add") to the list
// of always allowed or always denied operators, or removes it.
OUTBOARD_API void set_fallback_listing(const std::string& name, Listing listing);
OUTBOARD_API std::vector<std::string> fallback_listing(Listing listing);

// Allows `entry` to run by `placement` on the host, warns, or raises NotImplementedError. `dtype`
// and `device` are for the message.
void check_fallback(const Operator& entry, Placement placement, at::ScalarType dtype,
                    c10::DeviceIndex device);

// Whether check_fallback allows it.
bool is_allowed(const Operator& entry, Placement placement);

// Operators warn again.
OUTBOARD_API void reset_fallback_warnings();

// `function` says whether the calling thread prints tensors, for which no warning is given. Called
// before a warning; may take the interpreter lock.
using AsksForPrinting = bool (*)();
OUTBOARD_API void set_asks_for_printing(AsksForPrinting function) noexcept;

}  // namespace outboard
