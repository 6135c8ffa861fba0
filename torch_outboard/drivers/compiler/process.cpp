// Commands in processes of their own, and temporary folders for their files.
#include <common/failures.h>
#include <common/settings.h>
#include <common/start_process.h>
#include <common/system.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "compiler.h"

namespace compiler {

using drivers::fail;

namespace {

// Stored output. A compiler that prints more is read on, so that it can end.
constexpr size_t kOutputBytes = 64 * 1024;
constexpr int kPollMilliseconds = 20;

// Reads available output without waiting. False at its end.
bool read_available(int descriptor, std::string& output) {
  char part[4096];
  for (;;) {
    const ssize_t count = read(descriptor, part, sizeof part);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    output.append(part, std::min(static_cast<size_t>(count), kOutputBytes - output.size()));
  }
}

// Whether the process has ended, and how.
bool has_ended(pid_t process, Result& result) {
  int status = 0;
  const pid_t ended = waitpid(process, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  if (ended < 0) {
    result.exit_status = -1;  // another thread has waited for it
  } else if (WIFSIGNALED(status)) {
    result.signal = WTERMSIG(status);
  } else {
    result.exit_status = WEXITSTATUS(status);
  }
  return true;
}

// A process may close its output and go on, or end while a child of it holds the output open: both
// are checked in turn.
void wait_for(pid_t process, int descriptor, uint64_t seconds, Result& result) {
  const uint64_t deadline = nanoseconds() + seconds * 1'000'000'000;
  bool open = true, ended = false;
  while (!ended) {
    pollfd pipe = {open ? descriptor : -1, POLLIN, 0};
    // The end of the output comes right before that of the process.
    poll(&pipe, 1, open ? kPollMilliseconds : 1);
    if (open) open = read_available(descriptor, result.output);
    ended = has_ended(process, result);
    if (!ended && nanoseconds() >= deadline) {
      result.timed_out = true;
      kill(-process, SIGKILL);
      kill(process, SIGKILL);  // it may not have reached its group yet
      while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
      }
      ended = true;
    }
  }
  if (open) read_available(descriptor, result.output);
}

[[noreturn]] void cannot(const char* what, const std::string& path, int code) {
  fail(OB_ERROR,
       "The temporary file %.300s cannot be %s: %s; make room, or name another folder by TMPDIR.",
       path.c_str(), what, std::strerror(code));
}

}  // namespace

Words words_of(const std::string& text) {
  Words words;
  const auto is_blank = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  for (size_t i = 0;;) {
    while (i < text.size() && is_blank(text[i])) ++i;
    if (i == text.size()) return words;
    std::string word;
    for (char quote = 0; i < text.size() && (quote != 0 || !is_blank(text[i])); ++i) {
      if (quote == 0 && (text[i] == '"' || text[i] == '\'')) {
        quote = text[i];
      } else if (text[i] == quote) {
        quote = 0;
      } else {
        if (text[i] == '\\' && quote != '\'' && i + 1 < text.size()) ++i;
        word += text[i];
      }
    }
    words.push_back(word);
  }
}

Words command_of(const std::string& text) {
  return access(text.c_str(), X_OK) == 0 ? Words{text} : words_of(text);
}

Result run_command(const Words& command, const std::string& folder, uint64_t seconds) {
  Result result;
  int ends[2];
  pid_t process = -1;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.error = errno;
    return result;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  // Files of a killed compiler go with the folder. "error" is looked for in messages in English.
  result.error = drivers::start_process(command, {"TMPDIR=" + folder, "LC_ALL=C"},
                                        {-1, ends[1], ends[1]}, process);
  close(ends[1]);
  if (result.error == 0) wait_for(process, ends[0], seconds, result);
  close(ends[0]);
  return result;
}

Folder::Folder() {
  std::string parent = drivers::text_setting("TMPDIR");
  if (parent.empty()) parent = "/tmp";
  path = parent + "/outboard-XXXXXX";
  if (mkdtemp(path.data()) != nullptr) return;
  fail(OB_ERROR,
       "Programs are compiled in a temporary folder, and none can be created in %.300s: %s; name "
       "another folder by TMPDIR.",
       parent.c_str(), std::strerror(errno));
}

Folder::~Folder() {
  std::error_code error;
  std::filesystem::remove_all(path, error);
}

void write_content(const std::string& path, std::string_view content) {
  FILE* file = std::fopen(path.c_str(), "we");
  const bool written = file != nullptr &&
                       std::fwrite(content.data(), 1, content.size(), file) == content.size() &&
                       std::fflush(file) == 0;
  const int code = errno;
  if (file != nullptr) std::fclose(file);
  if (!written) cannot("written", path, code);
}

std::string read_content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot("read", path, errno);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace compiler
