#include "runtime/program_disk_cache.h"

#include <c10/util/Exception.h>
#include <c10/util/hash.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/device.h"
#include "runtime/driver_table.h"
#include "runtime/fork.h"

namespace outboard {
namespace {

namespace files = std::filesystem;

// Changes when entries of older versions can no longer be read or used.
constexpr const char* kMagic = "torch_outboard program 1";
constexpr auto kQuietTime = std::chrono::seconds(2);

struct Entry {
  ob_program program = nullptr;
  std::set<std::string> launches;  // "kernel local_size"
  bool changed = false;
};

// Leaked: kernels are launched while the process exits.
struct Cache {
  std::mutex mutex;  // of the fields; no driver call and no file is touched under it
  std::string folder;
  std::map<std::string, Entry> entries;
  bool writer_runs = false;
  std::condition_variable changed;
  std::mutex writing;   // one writer at a time
  bool closed = false;  // guarded by `writing`
};

Cache& cache() {
  static Cache* instance = new Cache;
  return *instance;
}

std::atomic<uint64_t> g_writes{0};

files::path path_of(const std::string& folder, const std::string& key) {
  return files::path(folder) / (key + ".bin");
}

std::string checksum(const std::string& data) { return c10::sha1(data).str(); }

// An entry: a line each for the version, the checksum of what follows, the number of launches and
// each launch; then the binary.
std::string encode(const std::set<std::string>& launches, const std::string& binary) {
  std::ostringstream body;
  body << launches.size() << '\n';
  for (const std::string& launch : launches) body << launch << '\n';
  body << binary;
  const std::string text = body.str();
  return std::string(kMagic) + '\n' + checksum(text) + '\n' + text;
}

bool decode(const std::string& data, std::set<std::string>& launches, std::string& binary) {
  std::istringstream stream(data);
  std::string line;
  if (!std::getline(stream, line) || line != kMagic) return false;
  std::string sum;
  if (!std::getline(stream, sum)) return false;
  if (checksum(data.substr(static_cast<size_t>(stream.tellg()))) != sum) return false;
  if (!std::getline(stream, line)) return false;
  for (size_t count = std::stoul(line); count > 0; --count) {
    if (!std::getline(stream, line)) return false;
    launches.insert(line);
  }
  binary = data.substr(static_cast<size_t>(stream.tellg()));
  return true;
}

bool write_file(const files::path& path, const std::string& data) {
  std::string temporary = path.string() + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return false;
  size_t written = 0;
  while (written < data.size()) {
    const ssize_t count = write(descriptor, data.data() + written, data.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  const bool closed = close(descriptor) == 0;
  if (written == data.size() && closed && std::rename(temporary.c_str(), path.c_str()) == 0) {
    return true;
  }
  std::remove(temporary.c_str());
  return false;
}

// A driver that has no binary to give, or a full disk, costs time in the next process and nothing
// else: no failure is reported.
void write_entry(const std::string& folder, const std::string& key, const Entry& entry) {
  const ob_driver& table = driver();
  uint64_t bytes = 0;
  if (table.program_binary(entry.program, nullptr, &bytes) != OB_OK || bytes == 0) return;
  std::string binary(bytes, '\0');
  if (table.program_binary(entry.program, binary.data(), &bytes) != OB_OK) return;
  binary.resize(bytes);
  if (write_file(path_of(folder, key), encode(entry.launches, binary))) {
    g_writes.fetch_add(1, std::memory_order_relaxed);
  }
}

void write_changes() {
  Cache& all = cache();
  std::lock_guard<std::mutex> writing(all.writing);
  if (all.closed || !driver_initialized() || in_bad_fork()) return;
  if (driver().program_binary == nullptr || driver().program_load == nullptr) return;
  std::map<std::string, Entry> changed;
  std::string folder;
  {
    std::lock_guard<std::mutex> lock(all.mutex);
    folder = all.folder;
    for (auto& [key, entry] : all.entries) {
      if (entry.changed) changed.emplace(key, entry);
      entry.changed = false;
    }
  }
  if (folder.empty() || changed.empty()) return;
  std::error_code error;
  files::create_directories(folder, error);
  for (const auto& [key, entry] : changed) write_entry(folder, key, entry);
}

// Waits until nothing has changed for a while, writes, and ends when there is nothing left.
void run_writer() noexcept {
  Cache& all = cache();
  while (true) {
    {
      std::unique_lock<std::mutex> lock(all.mutex);
      while (all.changed.wait_for(lock, kQuietTime) == std::cv_status::no_timeout) {
      }
    }
    try {
      write_changes();
    } catch (const std::exception&) {
      // What is not written is compiled again.
    }
    std::lock_guard<std::mutex> lock(all.mutex);
    bool more = false;
    for (const auto& [key, entry] : all.entries) more = more || entry.changed;
    if (!more || driver_finalized()) {
      all.writer_runs = false;
      return;
    }
  }
}

}  // namespace

void set_disk_cache_folder(const std::string& folder) {
  Cache& all = cache();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.folder = folder;
}

std::string disk_cache_folder() {
  Cache& all = cache();
  std::lock_guard<std::mutex> lock(all.mutex);
  return all.folder;
}

std::string disk_cache_key(c10::DeviceIndex device, const std::string& text,
                           const std::string& options) {
  const ob_device_properties& properties = device_properties(device);
  const char separator = '\0';
  std::string all = kMagic;
  for (const std::string& part :
       {std::string(driver().name), std::string(properties.name), std::string(properties.vendor),
        std::string(properties.driver_version), options, text}) {
    all += separator;
    all += part;
  }
  return checksum(all);
}

std::string disk_cache_read(const std::string& key) {
  Cache& all = cache();
  const std::string folder = disk_cache_folder();
  if (folder.empty()) return "";
  std::ifstream file(path_of(folder, key), std::ios::binary);
  if (!file) return "";
  std::ostringstream content;
  content << file.rdbuf();
  std::set<std::string> launches;
  std::string binary;
  bool sound = false;
  try {
    sound = decode(content.str(), launches, binary);
  } catch (const std::exception&) {
    // A number that is none, an offset past the end.
  }
  if (!sound) {
    disk_cache_remove(key);
    return "";
  }
  std::lock_guard<std::mutex> lock(all.mutex);
  all.entries[key].launches = std::move(launches);
  return binary;
}

void disk_cache_remove(const std::string& key) {
  Cache& all = cache();
  const std::string folder = disk_cache_folder();
  if (folder.empty()) return;
  std::error_code error;
  files::remove(path_of(folder, key), error);
  std::lock_guard<std::mutex> lock(all.mutex);
  all.entries.erase(key);
}

void disk_cache_note_launch(const std::string& key, ob_program program, const std::string& kernel,
                            uint64_t local_size) noexcept {
  try {
    Cache& all = cache();
    std::lock_guard<std::mutex> lock(all.mutex);
    if (all.folder.empty()) return;
    Entry& entry = all.entries[key];
    entry.program = program;
    if (!entry.launches.insert(c10::str(kernel, ' ', local_size)).second) return;
    entry.changed = true;
    if (all.writer_runs) {
      all.changed.notify_one();
      return;
    }
    std::thread(&run_writer).detach();
    all.writer_runs = true;
  } catch (const std::exception&) {
    // No memory or no thread: the program is compiled again next time.
  }
}

void flush_disk_cache() noexcept {
  try {
    write_changes();
  } catch (const std::exception&) {
    // As above.
  }
}

void close_disk_cache() noexcept {
  flush_disk_cache();
  std::lock_guard<std::mutex> writing(cache().writing);
  cache().closed = true;
}

uint64_t disk_cache_writes() noexcept { return g_writes.load(); }

}  // namespace outboard
