// How much PoCL keeps in the kit's folder.
//
// PoCL reads an entry of its cache again when a kernel is launched, and crashes where it has gone.
// So every process holds a shared lock on the folder, and entries go at the start of a process that
// finds no other: those that were not used for the longest time.
//
// An entry is a folder <two letters>/<hash>. PoCL touches the file last_accessed in it at each use.
#include <common/settings.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "../ocl.h"

namespace ocl {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kDefaultLimit = uint64_t{2} << 30;  // that of ops/program_cache.py
constexpr time_t kSecondsBetweenLooks = 3600;
// Its time is that of the last look.
constexpr const char* kLooked = "looked";

struct Entry {
  fs::path path;
  uint64_t bytes = 0;
  time_t used = 0;
};

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error));
}

std::vector<fs::path> children(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  return paths;
}

Entry measure(const fs::path& path) {
  Entry entry = {path};
  std::error_code error;
  for (fs::recursive_directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    struct stat status = {};
    if (lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    entry.bytes += static_cast<uint64_t>(status.st_size);
    entry.used = std::max(entry.used, status.st_mtim.tv_sec);
  }
  return entry;
}

// Bytes of the kit's own files, which lie beside PoCL's folder.
uint64_t bytes_of_files(const fs::path& folder) {
  uint64_t bytes = 0;
  for (const fs::path& path : children(folder)) {
    std::error_code error;
    if (fs::is_regular_file(fs::symlink_status(path, error))) bytes += fs::file_size(path, error);
  }
  return bytes;
}

// False if the last check was recent.
bool is_time_to_look(const fs::path& folder) {
  const fs::path looked = folder / kLooked;
  struct stat status = {};
  const time_t now = time(nullptr);
  if (stat(looked.c_str(), &status) == 0 && status.st_mtim.tv_sec <= now &&
      now - status.st_mtim.tv_sec < kSecondsBetweenLooks) {
    return false;
  }
  const int file = open(looked.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  futimens(file, nullptr);
  close(file);
  return true;
}

// The caller has the folder to itself.
void remove_oldest(const fs::path& folder, uint64_t limit) {
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::error_code error;
  for (const fs::path& path : children(folder)) {
    if (!is_folder(path)) {
      // What was being written when a process ended.
      if (path.filename() != kLooked) fs::remove(path, error);
      continue;
    }
    for (const fs::path& entry : children(path)) {
      entries.push_back(measure(entry));
      bytes += entries.back().bytes;
    }
  }
  if (limit == 0) return;
  // The kit's own files have half of the limit, and what PoCL leaves of the rest.
  const uint64_t others = bytes_of_files(folder.parent_path());
  const uint64_t allowed = std::max(limit / 2, limit - std::min(limit, others));
  if (bytes <= allowed) return;
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (bytes <= allowed - allowed / 10) break;
    fs::remove_all(entry.path, error);
    bytes -= entry.bytes;
  }
}

}  // namespace

void share_pocl_cache(const std::string& folder) {
  const uint64_t limit =
      drivers::number_setting("OUTBOARD_CACHE_LIMIT", 0, INT64_MAX, kDefaultLimit);
  // Stays open: the lock ends with the process.
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && is_time_to_look(folder)) remove_oldest(folder, limit);
  flock(file, LOCK_SH);
}

}  // namespace ocl
