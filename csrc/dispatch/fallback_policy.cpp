#include "dispatch/fallback_policy.h"

#include <c10/util/Exception.h>

#include <array>
#include <map>
#include <set>
#include <utility>

#include "runtime/global.h"

namespace outboard {
namespace {

std::array<std::atomic<Policy>, kPlacements> g_policies = {Policy::kAllow, Policy::kAllow,
                                                           Policy::kWarn};

struct Listings : std::map<std::string, Listing> {};

std::atomic<bool> g_any_listing{false};

std::string without_overload(const std::string& name) { return name.substr(0, name.find('.')); }

Listing listing_of(const std::string& name) {
  if (!g_any_listing.load(std::memory_order_acquire)) return Listing::kNone;
  const Locked<Listings> all;
  for (const std::string& candidate : {name, without_overload(name)}) {
    const auto found = all->find(candidate);
    if (found != all->end()) return found->second;
  }
  return Listing::kNone;
}

std::atomic<AsksForPrinting> g_is_printing{nullptr};

// Operators, without overloads, that warned.
struct Warned : std::set<std::pair<std::string, Placement>> {};

const char* description(Placement placement) {
  return placement == Placement::kHost ? "a host kernel on shared memory"
                                       : "a host kernel on copies";
}

}  // namespace

void set_asks_for_printing(AsksForPrinting function) noexcept { g_is_printing.store(function); }

Policy fallback_policy(Placement placement) {
  return g_policies[static_cast<int>(placement)].load();
}

void set_fallback_policy(Placement placement, Policy policy) {
  TORCH_CHECK_VALUE(placement != Placement::kDevice,
                    "device kernels have no policy; placements with one are "
                    "'host' and 'copied'");
  const Policy previous = g_policies[static_cast<int>(placement)].exchange(policy);
  if (placement == Placement::kHost) {
    g_router_watchers +=
        static_cast<int>(policy != Policy::kAllow) - static_cast<int>(previous != Policy::kAllow);
  }
}

void set_fallback_listing(const std::string& name, Listing listing) {
  const Locked<Listings> all;
  Listing& current = (*all)[name];  // kNone at first
  const bool was_denied = std::exchange(current, listing) == Listing::kDenied;
  if (listing == Listing::kNone) all->erase(name);
  g_any_listing.store(!all->empty(), std::memory_order_release);
  // A denied operator must not run without the router.
  g_router_watchers += static_cast<int>(listing == Listing::kDenied) - static_cast<int>(was_denied);
}

std::vector<std::string> fallback_listing(Listing listing) {
  const Locked<Listings> all;
  std::vector<std::string> names;
  for (const auto& [name, its_listing] : *all) {
    if (its_listing == listing) names.push_back(name);
  }
  return names;
}

void check_fallback(const Operator& entry, Placement placement, at::ScalarType dtype,
                    c10::DeviceIndex device) {
  const Listing listing = listing_of(entry.name);
  if (listing == Listing::kAllowed) return;
  const Policy policy = fallback_policy(placement);
  if (listing == Listing::kNone && C10_LIKELY(policy == Policy::kAllow)) return;
  const std::string type = dtype == at::ScalarType::Undefined ? "" : c10::str(" (", dtype, ")");
  if (listing == Listing::kDenied || policy == Policy::kError) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, entry.name, type, " was asked for on ", device_of(device),
        ", which has no device kernel for this call; it could run as ", description(placement),
        ", but ",
        listing == Listing::kDenied
            ? std::string("the operator is denied")
            : c10::str("the policy for '", placement == Placement::kHost ? "host" : "copied",
                       "' is 'error'"),
        "; allow it with torch_outboard.fallback.allow(\"", entry.name,
        "\") or register a kernel with torch_outboard.kernel");
  }
  const Warned::value_type warning(without_overload(entry.name), placement);
  if (Locked<Warned>()->contains(warning)) return;
  // Printing is not worth a warning, and must not use up the warning for other calls.
  const AsksForPrinting is_printing = g_is_printing.load();
  if (is_printing != nullptr && is_printing()) return;
  if (Locked<Warned>()->insert(warning).second) {
    TORCH_WARN(entry.name, type, " runs as ", description(placement), " on ", device_of(device),
               ", which has no device kernel for this call; register one with "
               "torch_outboard.kernel, or allow this with torch_outboard.fallback. This warning "
               "comes once per operator");
  }
}

bool is_allowed(const Operator& entry, Placement placement) {
  const Listing listing = listing_of(entry.name);
  return listing == Listing::kAllowed ||
         (listing == Listing::kNone && fallback_policy(placement) != Policy::kError);
}

void reset_fallback_warnings() { Locked<Warned>()->clear(); }

}  // namespace outboard
