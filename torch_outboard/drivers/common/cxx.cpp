#include "cxx.h"

#include <common/system.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <utility>

extern char** environ;  // NOLINT: no header of POSIX declares it

namespace drivers {
namespace {

thread_local std::string t_message = "No call has failed in this thread.";

std::string format_list(const char* text, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  std::string message(static_cast<size_t>(std::vsnprintf(nullptr, 0, text, arguments)), '\0');
  std::vsnprintf(message.data(), message.size() + 1, text, again);
  va_end(again);
  return message;
}

std::string joined(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

}  // namespace

std::string format(const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = format_list(text, arguments);
  va_end(arguments);
  return message;
}

void fail(ob_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = format_list(text, arguments);
  va_end(arguments);
  throw Failure{status, std::move(message)};
}

extern "C" const char* last_error(void*) { return t_message.c_str(); }

ob_status keep_message(ob_status status, std::string message) noexcept {
  t_message = std::move(message);
  return status;
}

ob_status keep_exception() noexcept {
  try {
    throw;
  } catch (Failure& failure) {
    return keep_message(failure.status, std::move(failure.message));
  } catch (const std::bad_alloc&) {
    return keep_message(OB_OUT_OF_MEMORY, "The host has no memory.");
  } catch (const std::exception& error) {
    return keep_message(OB_ERROR, error.what());
  }
}

std::string text_setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise) {
  const std::string text = text_setting(variable);
  if (text.empty()) return otherwise;
  errno = 0;
  const unsigned long long number = std::strtoull(text.c_str(), nullptr, 10);
  if (text.find_first_not_of("0123456789") == std::string::npos && errno == 0 &&
      number >= smallest && number <= largest) {
    return number;
  }
  fail(OB_INVALID_ARGUMENT, "%s=%.100s is not a whole number from %llu to %llu.", variable,
       text.c_str(), static_cast<unsigned long long>(smallest),
       static_cast<unsigned long long>(largest));
}

std::string choice_setting(const char* variable, const std::vector<std::string>& choices) {
  const std::string text = text_setting(variable);
  if (text.empty() || std::find(choices.begin(), choices.end(), text) != choices.end()) return text;
  fail(OB_INVALID_ARGUMENT, "%s=%.100s is none of %s", variable, text.c_str(),
       joined(choices).c_str());
}

std::vector<std::string> list_setting(const char* variable,
                                      const std::vector<std::string>& choices) {
  const std::string text = text_setting(variable);
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    if (first < end) {
      items.push_back(text.substr(first, text.find_last_not_of(' ', end - 1) + 1 - first));
    }
    begin = end + 1;
  }
  if (!text.empty() && items.empty()) {
    fail(OB_INVALID_ARGUMENT, "%s=%.100s names nothing.", variable, text.c_str());
  }
  for (const std::string& item : items) {
    if (choices.empty() || std::find(choices.begin(), choices.end(), item) != choices.end())
      continue;
    fail(OB_INVALID_ARGUMENT, "%s: \"%.100s\" is none of %s.", variable, item.c_str(),
         joined(choices).c_str());
  }
  return items;
}

// ---- Python packages

std::string own_path() {
  Dl_info own;
  const bool known = dladdr(reinterpret_cast<void*>(&own_path), &own) != 0;
  return known && own.dli_fname != nullptr ? own.dli_fname : "";
}

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  const std::string own = own_path();
  if (const size_t end = own.rfind("/torch_outboard/drivers/"); end != std::string::npos) {
    folders.push_back(own.substr(0, end));
  }
  const auto add = [](dl_phdr_info* info, size_t, void* argument) {
    auto& found = *static_cast<std::vector<std::string>*>(argument);
    const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    for (const std::string name : {"/site-packages", "/dist-packages"}) {
      const size_t start = path.rfind(name + "/");
      if (start == std::string::npos) continue;
      const std::string folder = path.substr(0, start + name.size());
      if (std::find(found.begin(), found.end(), folder) == found.end()) found.push_back(folder);
    }
    return 0;
  };
  dl_iterate_phdr(add, &folders);
  return folders;
}

std::string file_of_package(const std::string& name) {
  for (const std::string& folder : package_folders()) {
    if (access((folder + "/" + name).c_str(), R_OK) == 0) return folder + "/" + name;
  }
  return "";
}

// ---- Binaries of programs

namespace {

struct Seal {
  char magic[8] = {'o', 'b', '_', 'c', 'o', 'd', 'e', '2'};
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

Seal seal_of(std::string_view binary) {
  return {.bytes = binary.size(), .hash = hash_bytes(HASH_START, binary.data(), binary.size())};
}

}  // namespace

std::string sealed(std::string_view binary) {
  const Seal seal = seal_of(binary);
  return std::string(reinterpret_cast<const char*>(&seal), sizeof seal).append(binary);
}

std::string_view unsealed(const void* data, uint64_t bytes) {
  if (data != nullptr && bytes > sizeof(Seal)) {
    const char* binary = static_cast<const char*>(data) + sizeof(Seal);
    const std::string_view content(binary, bytes - sizeof(Seal));
    const Seal seal = seal_of(content);
    if (std::memcmp(data, &seal, sizeof seal) == 0) return content;
  }
  fail(OB_INVALID_ARGUMENT,
       "The %llu bytes are no binary of this driver, or are damaged; build from source again.",
       static_cast<unsigned long long>(bytes));
}

// ---- Processes

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

// ---- For drivers in C: common/system.h

extern "C" ob_status fail(ob_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string message = drivers::format_list(text, arguments);
  va_end(arguments);
  return drivers::keep_message(status, std::move(message));
}

extern "C" ob_status read_number(const char* variable, uint64_t smallest, uint64_t largest,
                                 uint64_t* value) try {
  *value = drivers::number_setting(variable, smallest, largest, *value);
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}

extern "C" ob_status read_choice(const char* variable, const char* const* choices, int* value) try {
  std::vector<std::string> all;
  for (const char* const* each = choices; *each != nullptr; ++each) all.push_back(*each);
  const std::string chosen = drivers::choice_setting(variable, all);
  const auto found = std::find(all.begin(), all.end(), chosen);
  if (found != all.end()) *value = static_cast<int>(found - all.begin());
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}
