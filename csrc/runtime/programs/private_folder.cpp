#include "runtime/programs/private_folder.h"

#include <c10/util/Exception.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>

namespace outboard {
namespace {

// Bytes, far more than any entry: reading a larger file could fill the memory.
constexpr uint64_t kLargestFile = uint64_t{1} << 30;

// nullptr if it cannot be opened.
using File = std::unique_ptr<FILE, int (*)(FILE*)>;
File open_in(int folder, const std::string& name, int flags, mode_t permissions = 0) {
  const int number = openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, permissions);
  FILE* file = number < 0 ? nullptr : fdopen(number, (flags & O_WRONLY) != 0 ? "w" : "r");
  if (file == nullptr && number >= 0) close(number);
  return {file, &std::fclose};
}

// A name that no other process uses at the same time.
std::string temporary_name(const std::string& name) {
  static std::atomic<uint64_t> number{0};
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  return c10::str(name, ".", getpid(), "-", number.fetch_add(1), "-", now.tv_nsec, ".tmp");
}

}  // namespace

PrivateFolder::PrivateFolder(const std::string& path, bool shared, bool create)
    : path_(path.substr(0, std::max<size_t>(path.find_last_not_of('/') + 1, 1))), shared_(shared) {
  if (create) {
    std::error_code ignored;  // opening the folder reports the error
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
    mkdir(path_.c_str(), shared ? 0777 : 0700);
  }
  const int folder = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
  if (folder < 0) {
    if (errno != ENOENT) problem_ = c10::str(path_, " cannot be opened: ", std::strerror(errno));
    return;
  }
  struct stat status = {};
  if (fstat(folder, &status) != 0) {
    problem_ = c10::str(path_, " cannot be looked at: ", std::strerror(errno));
  } else if (const std::string why = mistrusted(status); !why.empty()) {
    problem_ = c10::str("the folder ", path_, " ", why);
  }
  if (problem_.empty()) {
    folder_ = folder;
  } else {
    close(folder);
  }
}

PrivateFolder::~PrivateFolder() {
  if (folder_ >= 0) close(folder_);
}

// "" or why an opened object is refused.
std::string PrivateFolder::mistrusted(const struct stat& status) const {
  if (shared_) return "";
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    return c10::str("belongs to user ", status.st_uid, " and not to this one, ", geteuid());
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    char mode[16];
    std::snprintf(mode, sizeof(mode), "%04o", static_cast<unsigned>(status.st_mode & 07777));
    return c10::str("can be written by others than its owner (mode ", mode, ")");
  }
  return "";
}

std::optional<std::string> PrivateFolder::read(const std::string& name,
                                               std::string& problem) const {
  problem.clear();
  if (!usable()) return std::nullopt;
  // Without blocking: the file may be a FIFO.
  const File file = open_in(folder_, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  const std::string path = path_ + "/" + name;
  if (!file) {
    if (errno == ELOOP) {
      problem = path + " is a symbolic link and no file";
    } else if (errno != ENOENT) {
      problem = c10::str(path, " cannot be opened: ", std::strerror(errno));
    }
    return std::nullopt;
  }
  struct stat status = {};
  if (fstat(fileno(file.get()), &status) != 0 || !S_ISREG(status.st_mode)) {
    problem = path + " is not a regular file";
    return std::nullopt;
  }
  if (const std::string why = mistrusted(status); !why.empty()) {
    problem = path + " " + why;
    return std::nullopt;
  }
  if (static_cast<uint64_t>(status.st_size) > kLargestFile) {
    problem = c10::str(path, " has ", status.st_size, " bytes, more than any file here");
    return std::nullopt;
  }
  std::string data(static_cast<size_t>(status.st_size), '\0');
  if (std::fread(data.data(), 1, data.size(), file.get()) != data.size()) {
    problem = path + " cannot be read to its end";
    return std::nullopt;
  }
  futimens(fileno(file.get()), nullptr);  // fails on other users' files, which then look older
  return data;
}

bool PrivateFolder::write(const std::string& name, const std::string& data) const {
  if (!usable()) return false;
  const std::string temporary = temporary_name(name);
  File file = open_in(folder_, temporary, O_WRONLY | O_CREAT | O_EXCL, shared_ ? 0666 : 0600);
  if (file == nullptr) return false;
  const bool written = std::fwrite(data.data(), 1, data.size(), file.get()) == data.size() &&
                       std::fclose(file.release()) == 0;
  if (written && renameat(folder_, temporary.c_str(), folder_, name.c_str()) == 0) return true;
  unlinkat(folder_, temporary.c_str(), 0);
  return false;
}

bool PrivateFolder::remove(const std::string& name) const {
  return usable() && unlinkat(folder_, name.c_str(), 0) == 0;
}

std::vector<FolderEntry> PrivateFolder::list() const {
  std::vector<FolderEntry> entries;
  if (!usable()) return entries;
  // A second descriptor: fdopendir takes it over, and it has a position.
  const int again = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (again < 0) return entries;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(fdopendir(again), &closedir);
  if (folder == nullptr) {
    close(again);
    return entries;
  }
  while (const dirent* found = readdir(folder.get())) {
    struct stat status = {};
    if (fstatat(folder_, found->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (!S_ISREG(status.st_mode)) continue;
    const timespec& used = status.st_mtim;
    entries.push_back({found->d_name, static_cast<uint64_t>(status.st_size),
                       static_cast<double>(used.tv_sec) + 1e-9 * used.tv_nsec});
  }
  return entries;
}

uint64_t PrivateFolder::bytes_in_folders() const {
  namespace fs = std::filesystem;
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(path_, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    if (at.depth() == 0 || !fs::is_regular_file(at->symlink_status(gone))) continue;
    const uintmax_t size = at->file_size(gone);
    if (!gone) bytes += size;
  }
  return bytes;
}

bool PrivateFolder::try_lock() const {
  // Some network file systems lock no folders; several processes may then do the same work.
  return usable() && (flock(folder_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK);
}

}  // namespace outboard
