#include "runtime/programs/program_disk_cache.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/global.h"
#include "runtime/programs/private_folder.h"

namespace outboard {
namespace {

// The version of entries. Entries of other versions are not read.
constexpr const char* kMagic = "torch_outboard program 3\n";
constexpr auto kQuietTime = std::chrono::seconds(2);
constexpr size_t kKeyLength = 40;  // of SHA-1 in hexadecimal digits
// Seconds after which a temporary file is a rest of an interrupted write.
constexpr double kAbandoned = 3600;
constexpr uint64_t kLargestBinary = uint64_t{1} << 29;

struct Entry {
  ob_program program = nullptr;
  std::set<std::string> launches;  // "kernel local_size"
  bool changed = false;
  bool when_asked = false;  // the compiler has its own cache, and binaries take long to make
};

// Neither the driver nor files are accessed with its lock.
struct Cache {
  DiskCacheSettings settings;
  std::map<std::string, Entry> entries;
  bool writer_runs = false;
  std::condition_variable changed;
};

// Locked by the one writer, before the cache.
struct Writing {
  bool closed = false;
};

std::atomic<uint64_t> g_writes{0};

DiskCacheSettings current_settings() { return Locked<Cache>()->settings; }

std::string file_of(const std::string& key) { return key + ".bin"; }

std::string checksum(const std::string& data) { return c10::sha1(data).str(); }

// An entry: a line with the version, the checksum of the rest, a line with the key and each launch,
// and the binary.
std::string encode(const std::string& key, const std::set<std::string>& launches,
                   const std::string& binary) {
  std::string body = key;
  for (const std::string& launch : launches) body += '\t' + launch;
  body += '\n' + binary;
  return kMagic + checksum(body) + body;
}

// False for a damaged entry and for the entry of another key.
bool decode(const std::string& key, const std::string& data, std::set<std::string>& launches,
            std::string& binary) {
  const size_t begin = std::strlen(kMagic) + kKeyLength;
  if (!data.starts_with(kMagic) || data.size() < begin) return false;
  const std::string body = data.substr(begin);
  if (!data.starts_with(kMagic + checksum(body))) return false;
  const size_t end = body.find('\n');
  if (end == std::string::npos) return false;
  std::istringstream line(body.substr(0, end));
  std::string word;
  if (!std::getline(line, word, '\t') || word != key) return false;
  while (std::getline(line, word, '\t')) launches.insert(word);
  binary = body.substr(end + 1);
  return true;
}

// Errors are not reported: without the entry the next process compiles.
void write_entry(const PrivateFolder& folder, const std::string& key, const Entry& entry) {
  const ob_driver& table = driver();
  uint64_t bytes = 0;
  if (table.program_binary(table.context, entry.program, nullptr, &bytes) != OB_OK) return;
  if (bytes == 0 || bytes > kLargestBinary) return;
  const uint64_t room = bytes;
  std::string binary(room, '\0');
  if (table.program_binary(table.context, entry.program, binary.data(), &bytes) != OB_OK ||
      bytes > room)
    return;
  binary.resize(bytes);
  if (folder.write(file_of(key), encode(key, entry.launches, binary))) {
    g_writes.fetch_add(1, std::memory_order_relaxed);
  }
}

// The part of the limit that compilers of drivers leave; they use half of it at most.
uint64_t limit_of_entries(const PrivateFolder& folder, uint64_t bytes, uint64_t limit) {
  if (bytes <= limit / 2) return limit;  // without a look at the folders
  return std::max(limit / 2, limit - std::min(limit, folder.bytes_in_folders()));
}

// Removes the least recently used entries until the rest is a tenth below the limit, so that the
// next entry removes none.
void evict(const PrivateFolder& folder, uint64_t limit) {
  std::vector<FolderEntry> entries;
  uint64_t bytes = 0;
  const auto now = static_cast<double>(std::time(nullptr));
  for (FolderEntry& entry : folder.list()) {
    if (!is_disk_cache_file(entry.name)) continue;
    const bool whole = entry.name.size() == kKeyLength + 4;
    if (!whole && entry.used < now - kAbandoned) {
      folder.remove(entry.name);
      continue;
    }
    bytes += entry.bytes;
    if (whole) entries.push_back(std::move(entry));
  }
  if (limit == 0) return;
  limit = limit_of_entries(folder, bytes, limit);
  if (bytes <= limit || !folder.try_lock()) return;
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry& a, const FolderEntry& b) { return a.used < b.used; });
  for (const FolderEntry& entry : entries) {
    if (bytes <= limit - limit / 10) break;
    folder.remove(entry.name);
    bytes -= entry.bytes;
  }
}

void write_changes(bool asked) {
  const Locked<Writing> writing;
  if (writing->closed || !driver_initialized() || in_bad_fork()) return;
  if (driver().program_binary == nullptr || driver().program_load == nullptr) return;
  std::map<std::string, Entry> changed;
  DiskCacheSettings settings;
  {
    const Locked<Cache> all;
    settings = all->settings;
    for (auto& [key, entry] : all->entries) {
      if (!entry.changed || (entry.when_asked && !asked)) continue;
      changed.emplace(key, entry);
      entry.changed = false;
    }
  }
  if (settings.folder.empty() || changed.empty()) return;
  const PrivateFolder folder(settings.folder, settings.shared, /*create=*/true);
  if (!folder.usable()) return;
  for (const auto& [key, entry] : changed) write_entry(folder, key, entry);
  evict(folder, settings.limit);
}

// The writer's thread: waits until nothing changed for kQuietTime, writes, and ends without
// changes.
void run_writer() noexcept {
  while (true) {
    {
      Locked<Cache> all;
      while (all->changed.wait_for(all.lock(), kQuietTime) == std::cv_status::no_timeout) {
      }
    }
    try {
      write_changes(/*asked=*/false);
    } catch (const std::exception&) {
      // The next process compiles.
    }
    const Locked<Cache> all;
    bool more = false;
    for (const auto& [key, entry] : all->entries) {
      more = more || (entry.changed && !entry.when_asked);
    }
    if (!more || driver_finalized()) {
      all->writer_runs = false;
      return;
    }
  }
}

}  // namespace

std::string configure_disk_cache(DiskCacheSettings settings) {
  std::string problem;
  if (!settings.folder.empty()) {
    problem = PrivateFolder(settings.folder, settings.shared).problem();
    if (!problem.empty()) settings.folder.clear();
  }
  Locked<Cache>()->settings = std::move(settings);
  return problem;
}

bool disk_cache_is_on() noexcept { return !Locked<Cache>()->settings.folder.empty(); }

bool is_disk_cache_file(const std::string& name) noexcept {
  constexpr const char* kDigits = "0123456789abcdef";
  return name.find_first_not_of(kDigits) == kKeyLength &&
         name.compare(kKeyLength, 4, ".bin") == 0 &&
         (name.size() == kKeyLength + 4 || name[kKeyLength + 4] == '.');
}

std::string disk_cache_key(c10::DeviceIndex device, const std::string& source,
                           const std::string& options) {
  const ob_device_properties& properties = device_properties(device);
  const char separator = '\0';
  std::string all = kMagic;
  for (const std::string& part :
       {std::string(driver().name), std::string(properties.name), std::string(properties.vendor),
        std::string(properties.driver_version), options, source}) {
    all += separator;
    all += part;
  }
  return checksum(all);
}

std::string disk_cache_read(const std::string& key) {
  const DiskCacheSettings settings = current_settings();
  if (settings.folder.empty()) return "";
  std::string problem;
  std::set<std::string> launches;
  std::string binary;
  {
    const PrivateFolder folder(settings.folder, settings.shared);
    const std::optional<std::string> content = folder.read(file_of(key), problem);
    if (!problem.empty()) {
      // The program is compiled again, and its new entry replaces the file.
      TORCH_WARN("a cached kernel is not used and compiled again, because ", problem);
    }
    if (!content.has_value()) return "";
    if (!decode(key, *content, launches, binary)) {
      folder.remove(file_of(key));
      return "";
    }
  }
  Locked<Cache>()->entries[key].launches = std::move(launches);
  return binary;
}

void disk_cache_remove(const std::string& key) {
  const DiskCacheSettings settings = current_settings();
  if (settings.folder.empty()) return;
  PrivateFolder(settings.folder, settings.shared).remove(file_of(key));
  Locked<Cache>()->entries.erase(key);
}

void disk_cache_note_launch(c10::DeviceIndex device, const std::string& key, ob_program program,
                            const std::string& kernel, uint64_t local_size) noexcept {
  try {
    const bool when_asked = (device_properties(device).features & OB_FEATURE_COMPILER_CACHE) != 0;
    const Locked<Cache> all;
    if (all->settings.folder.empty()) return;
    Entry& entry = all->entries[key];
    entry.program = program;
    if (!entry.launches.insert(c10::str(kernel, ' ', local_size)).second) return;
    entry.changed = true;
    entry.when_asked = when_asked;
    if (when_asked) return;
    if (all->writer_runs) {
      all->changed.notify_one();
      return;
    }
    std::thread(&run_writer).detach();
    all->writer_runs = true;
  } catch (const std::exception&) {
    // No memory or no thread: the next process compiles.
  }
}

void disk_cache_forget(const std::vector<ob_program>& programs) noexcept {
  const Locked<Writing> writing;
  const Locked<Cache> all;
  std::erase_if(all->entries, [&](const auto& entry) {
    return std::find(programs.begin(), programs.end(), entry.second.program) != programs.end();
  });
}

void flush_disk_cache(bool asked) noexcept {
  try {
    write_changes(asked);
  } catch (const std::exception&) {
    // The next process compiles.
  }
}

void close_disk_cache() noexcept {
  flush_disk_cache();
  Locked<Writing>()->closed = true;
}

uint64_t disk_cache_writes() noexcept { return g_writes.load(); }

}  // namespace outboard
