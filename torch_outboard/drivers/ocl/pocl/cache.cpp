// The folder of PoCL's compiled code.
//
// PoCL loads shared libraries from its cache without checking who wrote them. So the cache is in
// the kit's folder, or in a folder of the user's that is checked. PoCL resolves the path for each
// file: no other user may have write access to the folder, its content or a folder above it.
// Without such a folder, or on a full disk, the cache is a temporary folder that this process
// removes. PoCL ends the process when it cannot write a file, so disk space is checked before a
// build.
#include <common/settings.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "../ocl.h"

namespace ocl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariable = "POCL_CACHE_DIR";

// More than PoCL writes for one program.
constexpr uint64_t kRoom = uint64_t{16} << 20;

struct Cache {
  std::mutex mutex;
  std::string folder;  // "": not chosen yet
  pid_t creator = 0;   // of a temporary folder; 0: it is none
};

// Leaked: it is used while the process exits.
Cache& cache() {
  static auto* instance = new Cache;
  return *instance;
}

std::vector<fs::path> children(const fs::path& folder, std::error_code& error) {
  std::vector<fs::path> paths;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    paths.push_back(at->path());
  }
  return paths;
}

// ---- Write access

// "", or the reason why users other than this one and root may have changed a file.
std::string mistrusted(const std::string& path, const struct stat& status, bool sticky_will_do) {
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return drivers::format("%s belongs to user %u and not to this one, %u", path.c_str(),
                           status.st_uid, geteuid());
  }
  const bool sticky = sticky_will_do && (status.st_mode & S_ISVTX) != 0;
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky) {
    return drivers::format("%s can be written by others than its owner (mode %04o)", path.c_str(),
                           static_cast<unsigned>(status.st_mode & 07777));
  }
  return "";
}

// Checks the folders above a path without symbolic links. In a folder with the sticky bit users
// cannot rename files of others.
std::string problem_above(const fs::path& path) {
  for (fs::path parent = path; parent.has_relative_path();) {
    parent = parent.parent_path();
    struct stat status = {};
    if (stat(parent.c_str(), &status) != 0) return parent.string() + ": " + std::strerror(errno);
    const std::string problem = mistrusted(parent, status, /*sticky_will_do=*/true);
    if (!problem.empty()) return problem;
  }
  return "";
}

// Only one level: deeper folders are PoCL's, which no other user can write to.
std::string problem_inside(const fs::path& path) {
  std::error_code error;
  for (const fs::path& inside : children(path, error)) {
    struct stat status = {};
    if (lstat(inside.c_str(), &status) != 0) continue;  // gone meanwhile
    if (S_ISLNK(status.st_mode)) return inside.string() + " is a symbolic link";
    const std::string problem = mistrusted(inside, status, /*sticky_will_do=*/false);
    if (!problem.empty()) return problem;
  }
  return error ? path.string() + ": " + error.message() : "";
}

// Creates a folder if it is missing, and resolves symbolic links in `path`. Returns "", or the
// reason why PoCL must not load libraries from it.
std::string make_trusted(std::string& path, bool shared) {
  std::error_code error;  // shows in the next call
  fs::create_directories(fs::path(path).parent_path(), error);
  mkdir(path.c_str(), shared ? 0777 : 0700);
  const fs::path resolved = fs::canonical(path, error);
  struct stat status = {};
  if (error || stat(resolved.c_str(), &status) != 0) {
    return path + ": " + (error ? error.message() : std::strerror(errno));
  }
  path = resolved;
  if (!S_ISDIR(status.st_mode)) return path + " is no folder";
  if (access(path.c_str(), W_OK | X_OK) != 0) return path + " cannot be written";
  if (shared) return "";
  std::string problem = mistrusted(path, status, /*sticky_will_do=*/false);
  if (problem.empty()) problem = problem_above(resolved);
  if (problem.empty()) problem = problem_inside(resolved);
  return problem;
}

// ---- Disk space

// "", or the reason why PoCL could not write compiled code.
std::string room_problem(const std::string& folder) {
  const auto needs = [&] {
    return drivers::format("PoCL needs %" PRIu64 " MiB in %s to compile a kernel", kRoom >> 20,
                           folder.c_str());
  };
  rlimit largest = {};
  if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < kRoom) {
    return needs() + drivers::format(", and files of this process may have %" PRIu64
                                     " bytes (ulimit -f)",
                                     largest.rlim_cur);
  }
  struct statvfs disk = {};
  if (statvfs(folder.c_str(), &disk) != 0) return "";  // unknown
  const uint64_t free_bytes = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (free_bytes < kRoom) {
    return needs() + drivers::format(", and %" PRIu64 " KiB are free there", free_bytes >> 10);
  }
  if (disk.f_files != 0 && disk.f_favail == 0) return needs() + ", and no file can be made there";
  return "";
}

// ---- Temporary folders

// A new folder in the first parent with disk space, else in the first where one can be created; ""
// if there is none.
std::string make_temporary() {
  std::vector<std::string> parents = {"/tmp", "/var/tmp", "/dev/shm"};
  const std::string named = drivers::text_setting("TMPDIR");
  if (!named.empty()) parents.insert(parents.begin(), named);
  std::stable_partition(parents.begin(), parents.end(),
                        [](const std::string& parent) { return room_problem(parent).empty(); });
  for (const std::string& parent : parents) {
    std::string folder = parent + "/outboard-pocl-XXXXXX";
    if (mkdtemp(folder.data()) != nullptr) return folder;
  }
  return "";
}

// ---- Limit
//
// PoCL reads an entry of its cache again when a kernel is launched, and crashes if it is missing.
// So every process holds a shared lock on the folder. A process that starts alone removes the least
// recently used entries.
//
// An entry is a folder <two letters>/<hash>. PoCL touches the file last_accessed in it at each use.

constexpr uint64_t kDefaultLimit = uint64_t{2} << 30;  // that of ops/program_cache.py
constexpr time_t kSecondsBetweenChecks = 3600;
// A file with the time of the last check.
constexpr const char* kLooked = "looked";

struct Entry {
  fs::path path;
  uint64_t bytes = 0;
  time_t used = 0;
};

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
  std::error_code error;
  for (const fs::path& path : children(folder, error)) {
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
      now - status.st_mtim.tv_sec < kSecondsBetweenChecks) {
    return false;
  }
  const int file = open(looked.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  futimens(file, nullptr);
  close(file);
  return true;
}

// The caller has the exclusive lock.
void remove_oldest(const fs::path& folder, uint64_t limit) {
  std::vector<Entry> entries;
  uint64_t bytes = 0;
  std::error_code error;
  for (const fs::path& path : children(folder, error)) {
    if (!fs::is_directory(fs::symlink_status(path, error))) {
      // Left from a process that ended while it wrote.
      if (path.filename() != kLooked) fs::remove(path, error);
      continue;
    }
    for (const fs::path& entry : children(path, error)) {
      entries.push_back(measure(entry));
      bytes += entries.back().bytes;
    }
  }
  if (limit == 0) return;
  // The kit's files have half of the limit, and the rest as far as PoCL leaves it.
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

// Takes the shared lock for the life of this process. Without another process, first removes the
// oldest entries beyond OUTBOARD_CACHE_LIMIT.
void share_pocl_cache(const std::string& folder) {
  const uint64_t limit =
      drivers::number_setting("OUTBOARD_CACHE_LIMIT", 0, INT64_MAX, kDefaultLimit);
  // Stays open: the lock ends with the process.
  const int file = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  if (flock(file, LOCK_EX | LOCK_NB) == 0 && is_time_to_look(folder)) remove_oldest(folder, limit);
  flock(file, LOCK_SH);
}

// ---- The choice

bool cache_is_shared() { return drivers::text_setting("OUTBOARD_CACHE_SHARED") == "1"; }

// The user's cache folder, "" if there is none.
std::string user_cache_folder() {
  const std::string named = drivers::text_setting("XDG_CACHE_HOME");
  if (!named.empty()) return named;
  std::string home = drivers::text_setting("HOME");
  if (home.empty()) {
    const passwd* user = getpwuid(getuid());
    if (user != nullptr && user->pw_dir != nullptr) home = user->pw_dir;
  }
  return home.empty() ? "" : home + "/.cache";
}

// The kit's folder of compiled programs (ops/program_cache.py); "": none.
std::string folder_of_programs() {
  if (const char* named = std::getenv("OUTBOARD_CACHE_DIR")) return named;
  const std::string user = user_cache_folder();
  return user.empty() ? "" : user + "/torch_outboard/programs";
}

// The folder below that of programs; "", with the reason, if a temporary one is needed.
std::string kept_folder(std::string& reason) {
  std::string programs = folder_of_programs();
  if (programs.empty()) {
    reason = "OUTBOARD_CACHE_DIR is empty";
    return "";
  }
  const bool shared = cache_is_shared();
  reason = make_trusted(programs, shared);
  if (!reason.empty()) return "";
  std::string folder = programs + "/pocl";
  reason = make_trusted(folder, shared);
  if (reason.empty()) reason = room_problem(folder);
  return reason.empty() ? folder : "";
}

// Throws where the user names a folder that others can write to.
void choose(Cache& all, std::string& report) {
  std::string named = drivers::text_setting(kVariable);
  if (!named.empty()) {
    const std::string given = named;
    const std::string problem = make_trusted(named, cache_is_shared());
    if (!problem.empty()) {
      fail(OB_INVALID_ARGUMENT,
           "%s=%s cannot be used, because PoCL loads libraries from there and %s; make it yours "
           "and writable by you alone (chmod -R go-w), name another, or unset %s.",
           kVariable, given.c_str(), problem.c_str(), kVariable);
    }
    all.folder = named;
    return;
  }
  std::string reason;
  all.folder = kept_folder(reason);
  if (!all.folder.empty()) {
    share_pocl_cache(all.folder);
    return;
  }
  all.folder = make_temporary();
  if (all.folder.empty()) {
    fail(OB_ERROR, "PoCL has no folder for what it compiles: %s, and no temporary one can be made.",
         reason.c_str());
  }
  all.creator = getpid();
  report += "PoCL's cache is the temporary folder " + all.folder + ": " + reason + "\n";
}

}  // namespace

PoclCacheScope::PoclCacheScope(std::string& report) {
  const char* given = std::getenv(kVariable);
  if (given != nullptr) given_ = given;
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  // PoCL reads the variable once. A child of a fork must not use a folder that its parent removes.
  const bool inherited = all.creator != 0 && all.creator != getpid();
  if (all.folder.empty() || inherited) {
    all.creator = 0;
    choose(all, report);
  }
  setenv(kVariable, all.folder.c_str(), 1);
}

PoclCacheScope::~PoclCacheScope() {
  if (given_) {
    setenv(kVariable, given_->c_str(), 1);
  } else {
    unsetenv(kVariable);
  }
}

std::string pocl_cache_folder() {
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  return all.folder;
}

void check_room_for_kernels(const Device& device) {
  if (device.platform->name != kPocl) return;
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  if (all.creator == getpid()) {
    // Behind those of PoCL's libraries, so that it runs before them.
    static std::once_flag once;
    std::call_once(once, [] { std::atexit(&remove_temporary_pocl_cache); });
  }
  const std::string problem = room_problem(all.folder);
  if (!problem.empty()) fail(OB_ERROR, "%s; make room.", problem.c_str());
}

void remove_temporary_pocl_cache() noexcept {
  Cache& all = cache();
  std::lock_guard lock(all.mutex);
  if (all.creator == 0 || all.creator != getpid()) return;
  std::error_code error;
  fs::remove_all(all.folder, error);
}

}  // namespace ocl
