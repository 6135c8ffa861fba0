#include "dispatch/report.h"

#include <chrono>
#include <exception>
#include <map>
#include <mutex>
#include <tuple>

namespace outboard {
namespace {

using Key = std::tuple<const Operator*, at::ScalarType, Placement, std::string>;

struct Report {
  std::mutex mutex;
  std::map<Key, ReportRow> rows;
};

Report& report() {
  static Report* instance = new Report;
  return *instance;
}

std::atomic<int> g_call_sites{0};
std::atomic<FindCallSite> g_find_call_site{nullptr};
std::atomic<CallListener> g_call_listener{nullptr};

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void start_report(bool call_sites) {
  g_call_sites.store(call_sites);
  ++g_reports;
  ++g_router_watchers;
}

void stop_report() {
  --g_reports;
  --g_router_watchers;
}

std::vector<ReportRow> report_rows() {
  Report& all = report();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<ReportRow> rows;
  rows.reserve(all.rows.size());
  for (const auto& [key, row] : all.rows) rows.push_back(row);
  return rows;
}

void clear_report() {
  Report& all = report();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.rows.clear();
}

void set_find_call_site(FindCallSite function) noexcept { g_find_call_site.store(function); }

void set_call_listener(CallListener function) noexcept { g_call_listener.store(function); }

ReportedCall::ReportedCall(const Operator& entry, at::ScalarType dtype,
                           Placement placement) noexcept
    : dtype_(dtype), placement_(placement) {
  if (C10_LIKELY(!reporting())) return;
  entry_ = &entry;
  exceptions_ = std::uncaught_exceptions();
  start_ = now();
}

ReportedCall::~ReportedCall() {
  if (C10_LIKELY(entry_ == nullptr)) return;
  if (std::uncaught_exceptions() > exceptions_) return;
  const auto spent = static_cast<uint64_t>(now() - start_);
  if (const CallListener listener = g_call_listener.load()) listener(*entry_, placement_);
  std::string call_site;
  const FindCallSite find = g_find_call_site.load();
  if (g_call_sites.load() && find != nullptr) call_site = find();
  Report& all = report();
  std::lock_guard<std::mutex> lock(all.mutex);
  ReportRow& row = all.rows[Key(entry_, dtype_, placement_, call_site)];
  if (row.calls == 0) {
    row.op = entry_->name;
    row.dtype = dtype_;
    row.placement = placement_;
    row.call_site = std::move(call_site);
  }
  row.calls += 1;
  row.copied_bytes += copied_bytes_;
  row.nanoseconds += spent;
}

}  // namespace outboard
