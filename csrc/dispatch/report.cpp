#include "dispatch/report.h"

#include <exception>
#include <map>
#include <tuple>
#include <utility>

#include "runtime/global.h"
#include "runtime/streams/wait.h"

namespace outboard {
namespace {

using Key = std::tuple<const Operator*, at::ScalarType, Placement, std::string>;

struct Report {
  std::map<Key, ReportRow> rows;
  std::map<std::pair<std::string, std::string>, WaitRow> waits;  // by cause and call site
};

// The rows of one of the maps.
template <class Map>
std::vector<typename Map::mapped_type> rows_of(Map Report::* map) {
  const Locked<Report> all;
  std::vector<typename Map::mapped_type> rows;
  rows.reserve(((*all).*map).size());
  for (const auto& [key, row] : (*all).*map) rows.push_back(row);
  return rows;
}

std::atomic<CallSites> g_call_sites{CallSites::kNone};
std::atomic<FindCallSite> g_find_call_site{nullptr};
std::atomic<CallListener> g_call_listener{nullptr};

// Reported calls that this thread is in: waits and programs belong to the outermost one.
thread_local int t_calls = 0;

std::string call_site() {
  const FindCallSite find = g_find_call_site.load();
  return find != nullptr ? find() : std::string();
}

void add_wait(const std::string& cause, const std::string& site, uint64_t count,
              uint64_t nanoseconds) {
  const Locked<Report> all;
  WaitRow& row = all->waits[{cause, site}];
  row.cause = cause;
  row.call_site = site;
  row.count += count;
  row.nanoseconds += nanoseconds;
}

void add_requested_wait(const char* call, uint64_t nanoseconds) noexcept {
  if (!reporting() || t_calls > 0) return;
  add_wait(call, g_call_sites.load() != CallSites::kNone ? call_site() : "", 1, nanoseconds);
}

ThreadCosts difference(const ThreadCosts& now, const ThreadCosts& before) {
  return {now.waits - before.waits, now.waiting_nanoseconds - before.waiting_nanoseconds,
          now.programs - before.programs, now.compiling_nanoseconds - before.compiling_nanoseconds};
}

void add(ThreadCosts& sum, const ThreadCosts& costs) {
  sum.waits += costs.waits;
  sum.waiting_nanoseconds += costs.waiting_nanoseconds;
  sum.programs += costs.programs;
  sum.compiling_nanoseconds += costs.compiling_nanoseconds;
}

}  // namespace

void start_report(CallSites call_sites) {
  g_call_sites.store(call_sites);
  set_wait_listener(&add_requested_wait);
  ++g_reports;
  ++g_router_watchers;
}

void stop_report() {
  --g_reports;
  --g_router_watchers;
}

std::vector<ReportRow> report_rows() { return rows_of(&Report::rows); }

std::vector<WaitRow> report_waits() { return rows_of(&Report::waits); }

void clear_report() {
  const Locked<Report> all;
  all->rows.clear();
  all->waits.clear();
}

void set_find_call_site(FindCallSite function) noexcept { g_find_call_site.store(function); }

void set_call_listener(CallListener function) noexcept { g_call_listener.store(function); }

ReportedCall::ReportedCall(const Operator& entry, at::ScalarType dtype,
                           Placement placement) noexcept
    : dtype_(dtype), placement_(placement) {
  if (C10_LIKELY(!reporting())) return;
  entry_ = &entry;
  exceptions_ = std::uncaught_exceptions();
  before_ = thread_costs();
  ++t_calls;
  start_ = host_nanoseconds();
}

void ReportedCall::cancel() noexcept {
  if (entry_ == nullptr) return;
  --t_calls;
  entry_ = nullptr;
}

ReportedCall::~ReportedCall() {
  if (C10_LIKELY(entry_ == nullptr)) return;
  --t_calls;
  if (std::uncaught_exceptions() > exceptions_) return;
  const uint64_t spent = host_nanoseconds() - start_;
  const ThreadCosts costs = difference(thread_costs(), before_);
  if (const CallListener listener = g_call_listener.load()) listener(*entry_, placement_);
  const bool waited = costs.waits > 0 && t_calls == 0;
  const CallSites sites = g_call_sites.load();
  std::string site;
  if (sites == CallSites::kAll || (sites == CallSites::kOfWaits && waited)) site = call_site();
  if (waited) add_wait(entry_->name, site, costs.waits, costs.waiting_nanoseconds);
  if (sites != CallSites::kAll) site.clear();
  const Locked<Report> all;
  ReportRow& row = all->rows[Key(entry_, dtype_, placement_, site)];
  if (row.calls == 0) {
    row.op = entry_->name;
    row.dtype = dtype_;
    row.placement = placement_;
    row.call_site = std::move(site);
  }
  row.calls += 1;
  row.copied_bytes += copied_bytes_;
  row.nanoseconds += spent;
  if (t_calls == 0) add(row.costs, costs);
}

}  // namespace outboard
