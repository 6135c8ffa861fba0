// PoCL's front end in a process of its own.
//
// PoCL compiles in two steps. clBuildProgram (the front end) turns a source into LLVM IR; the first
// launch of a kernel generates machine code, on a thread of PoCL. Both steps hold one lock of the
// process and write their results to PoCL's disk cache. With one process, one core compiles.
//
// The program `pocl_front_end` loads this library and runs the front end into the same cache, while
// this process generates code for earlier launches. This process then builds the same source and
// finds it in the cache. Programs and errors always come from this process, so a failure of the
// other one costs time alone.
//
// pocl_front_end starts after the first slow build. It exits after 10 s without a request, and
// starts again after the next slow build.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "../ocl.h"

extern char** environ;  // NOLINT: no header of POSIX declares it

namespace ocl {
namespace {

constexpr const char* kProgram = "/pocl_front_end";  // beside this library

constexpr int kIdleMilliseconds = 10'000;
// A process that does not answer in time is killed and not started again.
constexpr int kAnswerMilliseconds = 120'000;

constexpr char kReady = 'r';
constexpr char kBuilt = 'b';

// Before the source and the options.
struct Request {
  uint64_t source_bytes;
  uint64_t options_bytes;
};

// Polls a socket. True if it has data or its peer has closed it.
bool wait_readable(int file, int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  pollfd waiting = {file, POLLIN, 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    const int count = poll(&waiting, 1, std::max(0, static_cast<int>(left.count())));
    if (count >= 0 || errno != EINTR) return count > 0;
  }
}

bool send_all(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(file, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int file, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(file, at, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    bytes -= static_cast<size_t>(received);
  }
  return true;
}

// ---- This process

struct FrontEnd {
  std::mutex mutex;
  pid_t process = 0;   // 0: none
  pid_t parent = 0;    // differs from getpid() in a child of a fork
  int socket = -1;     // -1: closed
  bool ready = false;  // has sent kReady
  bool given_up = false;
};

// Leaked: programs are built while the process exits.
FrontEnd& front_end() {
  static auto* instance = new FrontEnd;
  return *instance;
}

std::string own_folder() {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&own_folder), &own) == 0 || own.dli_fname == nullptr)
    return "";
  const std::string path = own.dli_fname;
  return path.substr(0, path.rfind('/'));
}

// The environment of this process, with PoCL as the only OpenCL library and its cache folder.
std::vector<std::string> environment_for(const Device& device) {
  std::vector<std::string> all = {"OUTBOARD_OCL_LIBRARY=" + device.platform->library,
                                  "POCL_CACHE_DIR=" + pocl_cache_folder()};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable(*entry, std::strcspn(*entry, "="));
    const bool ours = variable == "OUTBOARD_OCL_LIBRARY" || variable == "POCL_CACHE_DIR" ||
                      variable == "OUTBOARD_OCL_DEVICES" || variable == "OUTBOARD_OCL_COPIES";
    if (!ours) all.push_back(*entry);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// Returns 0 or an errno value. `socket` becomes the standard input of the process.
int spawn(const Device& device, int socket, pid_t& process) {
  const std::string folder = own_folder();
  std::vector<std::string> arguments = {folder + kProgram, folder + "/libob_ocl.so"};
  std::vector<std::string> environment = environment_for(device);
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_adddup2(&files, socket, STDIN_FILENO);
  for (const int file : {STDOUT_FILENO, STDERR_FILENO}) {
    posix_spawn_file_actions_addopen(&files, file, "/dev/null", O_WRONLY, 0);
  }
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawn(&process, arguments[0].c_str(), &files, &attributes,
                                pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Closes the connection, at which the process exits. The caller holds the mutex, here and below.
void hang_up(FrontEnd& f) {
  if (f.socket >= 0) {
    shutdown(f.socket, SHUT_RDWR);  // children of a fork have it, too
    close(f.socket);
  }
  f.socket = -1;
  f.ready = false;
}

// Waits for the exit of the process. After a failure none is started again.
void reap(FrontEnd& f, pid_t process) {
  siginfo_t info = {};
  while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) != 0) {
    if (errno != EINTR) break;  // somebody else has seen its end
  }
  const std::lock_guard lock(f.mutex);
  int status = 0;
  const bool seen = waitpid(process, &status, WNOHANG) == process;
  if (seen && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) f.given_up = true;
  hang_up(f);
  f.process = 0;
}

void start(FrontEnd& f, const Device& device) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return;
  const int error = spawn(device, sockets[1], f.process);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    f.process = 0;
    f.given_up = true;
    return;
  }
  f.socket = sockets[0];
  f.parent = getpid();
  f.ready = false;
  post([&f, process = f.process] { reap(f, process); });
}

bool is_ready(FrontEnd& f) {
  if (f.socket < 0 || f.parent != getpid()) return false;
  if (f.ready || !wait_readable(f.socket, 0)) return f.ready;
  char answer = 0;
  f.ready = receive_all(f.socket, &answer, 1) && answer == kReady;
  return f.ready;
}

bool ask(FrontEnd& f, const std::string& source, const std::string& options) {
  const Request request = {source.size(), options.size()};
  char answer = 0;
  return send_all(f.socket, &request, sizeof request) &&
         send_all(f.socket, source.data(), source.size()) &&
         send_all(f.socket, options.data(), options.size()) &&
         wait_readable(f.socket, kAnswerMilliseconds) && receive_all(f.socket, &answer, 1) &&
         answer == kBuilt;
}

// ---- The other process

void build_for_cache(const Device& device, const std::string& source, const std::string& options) {
  const OpenCL& api = *device.api;
  const char* texts[] = {source.c_str()};
  cl_int code = CL_SUCCESS;
  cl_program program = api.clCreateProgramWithSource(device.context, 1, texts, nullptr, &code);
  if (code != CL_SUCCESS) return;
  // The process that asked builds the source as well and reports its errors.
  api.clBuildProgram(program, 1, &device.id, options.c_str(), nullptr, nullptr);
  api.clReleaseProgram(program);
}

int serve(int socket) {
  find_devices();
  if (devices().size() != 1) return 1;
  const Device& device = *devices().front();
  if (!send_all(socket, &kReady, 1)) return 0;
  Request request = {};
  while (wait_readable(socket, kIdleMilliseconds) &&
         receive_all(socket, &request, sizeof request)) {
    std::string source(request.source_bytes, '\0');
    std::string options(request.options_bytes, '\0');
    if (!receive_all(socket, source.data(), source.size()) ||
        !receive_all(socket, options.data(), options.size())) {
      return 0;
    }
    build_for_cache(device, source, options);
    if (!send_all(socket, &kBuilt, 1)) return 0;
  }
  return 0;
}

}  // namespace

bool front_end_helps() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 1;
}

bool build_in_front_end(const Device& device, const std::string& source,
                        const std::string& options) {
  if (!device.has_front_end) return false;
  FrontEnd& f = front_end();
  // If another thread waits for the process, this one builds in its own.
  const std::unique_lock lock(f.mutex, std::try_to_lock);
  if (!lock.owns_lock() || !is_ready(f)) return false;
  if (ask(f, source, options)) return true;
  hang_up(f);
  kill(f.process, SIGKILL);
  return false;
}

void start_front_end(const Device& device) {
  if (!device.has_front_end || g_ended) return;
  FrontEnd& f = front_end();
  const std::unique_lock lock(f.mutex, std::try_to_lock);
  if (lock.owns_lock() && f.process == 0 && !f.given_up) start(f, device);
}

void stop_front_end() noexcept {
  FrontEnd& f = front_end();
  const std::lock_guard lock(f.mutex);
  if (f.process == 0 || f.parent != getpid()) return;
  hang_up(f);
  kill(f.process, SIGKILL);
}

}  // namespace ocl

// The main function of pocl_front_end: serves requests from standard input until it is closed.
// Returns the exit status.
extern "C" __attribute__((visibility("default"))) int ob_ocl_serve_front_end() {
  try {
    return ocl::serve(STDIN_FILENO);
  } catch (const std::exception&) {
    return 1;
  }
}
