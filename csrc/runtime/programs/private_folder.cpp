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
#include <filesystem>
#include <memory>

namespace outboard {
namespace {

// Bytes, far more than any entry: reading a larger file could fill the memory.
constexpr uint64_t kLargestFile = uint64_t{1} << 30;

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  C10_DISABLE_COPY_AND_ASSIGN(Descriptor);
  int get() const noexcept { return number_; }
  explicit operator bool() const noexcept { return number_ >= 0; }

 private:
  int number_;
};

// Calls `transfer`, which is read or write, until all of `data` is done.
template <class Data, class Byte>
bool transfer_all(ssize_t (*transfer)(int, Byte*, size_t), int file, Data& data) {
  size_t done = 0;
  while (done < data.size()) {
    const ssize_t count = transfer(file, data.data() + done, data.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<size_t>(count);
  }
  return true;
}

// A name that no other process uses at the same time.
std::string temporary_name(const std::string& name) {
  static std::atomic<uint64_t> number{0};
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  char suffix[80];
  std::snprintf(suffix, sizeof(suffix), ".%ld-%llu-%lx.tmp", static_cast<long>(getpid()),
                static_cast<unsigned long long>(number.fetch_add(1)),
                static_cast<unsigned long>(now.tv_nsec));
  return name + suffix;
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
  const Descriptor file(
      openat(folder_, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
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
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
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
  if (!transfer_all(&::read, file.get(), data)) {
    problem = path + " cannot be read to its end";
    return std::nullopt;
  }
  futimens(file.get(), nullptr);  // fails on other users' files, which then look older
  return data;
}

bool PrivateFolder::write(const std::string& name, const std::string& data) const {
  if (!usable()) return false;
  const std::string temporary = temporary_name(name);
  {
    const Descriptor file(openat(folder_, temporary.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                                 shared_ ? 0666 : 0600));
    if (!file) return false;
    if (!transfer_all(&::write, file.get(), data)) {
      unlinkat(folder_, temporary.c_str(), 0);
      return false;
    }
  }
  if (renameat(folder_, temporary.c_str(), folder_, name.c_str()) == 0) return true;
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
    entries.push_back({found->d_name, static_cast<uint64_t>(status.st_size), status.st_mtim});
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
