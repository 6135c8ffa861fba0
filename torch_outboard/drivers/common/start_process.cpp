#include "start_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

extern char** environ;  // NOLINT: no header of POSIX declares it

namespace drivers {
namespace {

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Behind those of `changes`, the variables of this process.
void add_environment(std::vector<std::string>& changes) {
  const std::vector<std::string> ours = changes;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const auto is_same = [&](const std::string& change) {
      return change.compare(0, change.find('=') + 1, *entry, std::strcspn(*entry, "=") + 1) == 0;
    };
    if (std::none_of(ours.begin(), ours.end(), is_same)) changes.push_back(*entry);
  }
}

// Closes all open descriptors from 3 in the child.
int close_others(posix_spawn_file_actions_t* files) {
  DIR* open_files = opendir("/proc/self/fd");
  int error = 0;
  while (const dirent* entry = open_files == nullptr ? nullptr : readdir(open_files)) {
    const int descriptor = std::atoi(entry->d_name);
    if (descriptor < 3 || descriptor == dirfd(open_files) || error != 0) continue;
    error = posix_spawn_file_actions_addclose(files, descriptor);
  }
  if (open_files != nullptr) closedir(open_files);
  return error;
}

}  // namespace

int start_process(std::vector<std::string> command, std::vector<std::string> changes,
                  const std::array<int, 3>& streams, pid_t& process) {
  if (command.empty()) return ENOENT;
  add_environment(changes);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  int error = 0;
  for (int i = 0; i < 3 && error == 0; ++i) {
    error = streams[i] < 0 ? posix_spawn_file_actions_addopen(&files, i, "/dev/null", O_RDWR, 0)
                           : posix_spawn_file_actions_adddup2(&files, streams[i], i);
  }
  if (error == 0) error = close_others(&files);
  if (error == 0) {
    error = posix_spawnp(&process, command[0].c_str(), &files, &attributes,
                         pointers_to(command).data(), pointers_to(changes).data());
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

}  // namespace drivers
