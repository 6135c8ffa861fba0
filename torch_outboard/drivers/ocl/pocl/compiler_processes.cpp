// Processes that compile for PoCL beside this one.
//
// PoCL compiles in two steps. clBuildProgram (the front end) turns a source into LLVM IR; the first
// launch of a kernel with a local size generates machine code, on a thread of PoCL. Both steps hold
// one lock of the process and write their results to PoCL's disk cache. With one process, one core
// compiles.
//
// The program `pocl_compiler` loads this library and compiles into the same cache:
// - build_in_compiler waits until a source is built there. This process then builds it as well and
//   finds it in the cache.
// - compile_for_launch returns an event that completes when the code of a kernel is in the cache.
//   The launch waits for it on its queue, and this process goes on to the next operator.
// Programs, kernels and errors always come from this process, so a failure of the others costs time
// alone: the event completes, and PoCL compiles here.
//
// The first process starts after a slow build, and one more whenever a request finds none free, up
// to OUTBOARD_OCL_COMPILER_PROCESSES. Each exits after 10 s without a request.
#include <common/packages.h>
#include <common/start_process.h>
#include <common/system.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <unordered_map>

#include "../ocl.h"

namespace ocl {
namespace {

// ---- Messages between this process and pocl_compiler, over a socket

// Sent by pocl_compiler when it takes requests, and after each request.
constexpr char kCompilerReady = 'r';
constexpr char kCompiled = 'c';

// Followed by the bytes of the source, the options, the name of the kernel and the arguments
// (int32_t each, as in Launch).
struct CompilerRequest {
  uint64_t source_number;
  uint64_t source_bytes;
  uint64_t options_bytes;
  uint64_t kernel_bytes;  // 0: the program is built, and no kernel compiled
  uint64_t argument_count;
  uint32_t dimensions;
  std::array<size_t, 3> global;
  std::array<size_t, 3> local;
};

// Both return false if the peer is gone.
bool send_all(int socket, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t received = recv(socket, at, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    at += received;
    bytes -= static_cast<size_t>(received);
  }
  return true;
}

// ---- Processes that this one starts

constexpr const char* kProgram = "/pocl_compiler";  // beside this library

constexpr auto kIdle = std::chrono::seconds(10);
// A process that does not answer in time is killed, and no other is started.
constexpr int kAnswerMilliseconds = 120'000;

struct Job {
  std::shared_ptr<const CompilerSource> source;
  CompiledLaunch launch;  // no kernel: the program alone
  const OpenCL* api = nullptr;
  EventReference compiled;  // a user event of a launch
  bool done = false;
  bool succeeded = false;
};

struct Process {
  pid_t process = 0;
  int socket = -1;
};

struct Compilers {
  std::mutex mutex;
  std::condition_variable job_arrived;
  std::condition_variable job_done;
  std::deque<std::shared_ptr<Job>> builds;    // callers wait for these
  std::deque<std::shared_ptr<Job>> launches;  // queues wait for these
  std::vector<Process> processes;
  size_t starting = 0;
  size_t ready = 0;
  size_t idle = 0;
  bool given_up = false;
};

// Leaked: programs are built while the process exits.
Compilers& compilers() {
  static auto* instance = new Compilers;
  return *instance;
}

// In a child of a fork the threads that serve the processes are missing.
std::atomic<pid_t> g_owner{0};
std::atomic<uint64_t> g_sources{0};

// With PoCL as the only OpenCL library, and its cache folder. Returns 0 or an errno value. `socket`
// becomes the standard input of the process.
int start_compiler(const Device& device, int socket, pid_t& process) {
  const std::string library = drivers::own_path();
  const std::string program = library.substr(0, library.rfind('/')) + kProgram;
  return drivers::start_process(
      {program, library},
      {"OUTBOARD_OCL_LIBRARY=" + device.platform->library, "POCL_CACHE_DIR=" + pocl_cache_folder(),
       "OUTBOARD_OCL_DEVICES=", "OUTBOARD_OCL_COPIES="},
      {socket, -1, -1}, process);
}

// ---- One process, served by a thread of this one

bool wait_for_answer(int socket, char expected) {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kAnswerMilliseconds);
  pollfd waiting = {socket, POLLIN, 0};
  int count = 0;
  do {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    count = poll(&waiting, 1, std::max(0, static_cast<int>(left.count())));
  } while (count < 0 && errno == EINTR);
  char answer = 0;
  return count > 0 && receive_all(socket, &answer, 1) && answer == expected;
}

bool ask(int socket, const Job& job) {
  const CompiledLaunch& launch = job.launch;
  const CompilerRequest request = {job.source->number,
                                   job.source->text.size(),
                                   job.source->options.size(),
                                   launch.kernel.size(),
                                   launch.arguments.size(),
                                   launch.dimensions,
                                   launch.global,
                                   launch.local};
  return send_all(socket, &request, sizeof request) &&
         send_all(socket, job.source->text.data(), request.source_bytes) &&
         send_all(socket, job.source->options.data(), request.options_bytes) &&
         send_all(socket, launch.kernel.data(), request.kernel_bytes) &&
         send_all(socket, launch.arguments.data(), request.argument_count * sizeof(int32_t)) &&
         wait_for_answer(socket, kCompiled);
}

// The caller holds the mutex, here and in the functions that are given `Compilers`.
void finish(Compilers& c, Job& job, bool succeeded) {
  job.done = true;
  job.succeeded = succeeded;
  if (job.compiled) job.api->clSetUserEventStatus(job.compiled.get(), CL_COMPLETE);
  c.job_done.notify_all();
}

// NULL: nothing came in time.
std::shared_ptr<Job> take_job(Compilers& c, std::unique_lock<std::mutex>& lock) {
  ++c.idle;
  c.job_arrived.wait_for(lock, kIdle,
                         [&] { return !c.builds.empty() || !c.launches.empty() || g_ended; });
  --c.idle;
  std::deque<std::shared_ptr<Job>>& jobs = c.builds.empty() ? c.launches : c.builds;
  if (jobs.empty() || g_ended) return nullptr;
  std::shared_ptr<Job> job = std::move(jobs.front());
  jobs.pop_front();
  return job;
}

void finish_all(Compilers& c) {
  for (auto* jobs : {&c.builds, &c.launches}) {
    for (const auto& job : *jobs) finish(c, *job, false);
    jobs->clear();
  }
}

// Closes the connection, at which the process exits, and waits for that.
void end(const Process& process, bool failed) {
  if (failed) kill(process.process, SIGKILL);
  shutdown(process.socket, SHUT_RDWR);  // children of a fork have it, too
  close(process.socket);
  while (waitpid(process.process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void serve(Compilers& c, Process process) {
  bool works = wait_for_answer(process.socket, kCompilerReady);
  std::unique_lock lock(c.mutex);
  --c.starting;
  ++c.ready;
  while (works) {
    const std::shared_ptr<Job> job = take_job(c, lock);
    if (job == nullptr) break;
    lock.unlock();
    works = ask(process.socket, *job);
    lock.lock();
    finish(c, *job, works);
  }
  --c.ready;
  if (!works) c.given_up = true;
  if (c.ready == 0) finish_all(c);
  std::erase_if(c.processes, [&](const Process& p) { return p.process == process.process; });
  lock.unlock();
  end(process, !works);
}

void start(Compilers& c, const Device& device) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return;
  Process process = {0, sockets[0]};
  const int error = start_compiler(device, sockets[1], process.process);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    c.given_up = true;
    return;
  }
  ++c.starting;
  c.processes.push_back(process);
  g_owner = getpid();
  post([&c, process] { serve(c, process); });
}

// False: there is no process to do it.
bool add_job(Compilers& c, const Device& device, const std::shared_ptr<Job>& job) {
  if (c.ready == 0 || g_ended) return false;
  (job->launch.kernel.empty() ? c.builds : c.launches).push_back(job);
  const bool busy = c.builds.size() + c.launches.size() > c.idle;
  if (busy && c.starting == 0 && !c.given_up && c.processes.size() < device.compilers) {
    start(c, device);
  }
  c.job_arrived.notify_one();
  return true;
}

bool is_owner() { return g_owner.load() == getpid(); }
bool has_other_owner() { return g_owner.load() != 0 && !is_owner(); }

}  // namespace

size_t compiler_limit(const Settings& settings) {
  const auto cores = static_cast<size_t>(usable_processors());
  return cores > 1 ? std::min<size_t>(cores, settings.compiler_processes) : 0;
}

std::shared_ptr<const CompilerSource> build_in_compiler(const Device& device,
                                                        const std::string& text,
                                                        const std::string& options) {
  if (device.compilers == 0 || !is_owner()) return nullptr;
  auto job = std::make_shared<Job>();
  job->source = std::make_shared<CompilerSource>(CompilerSource{++g_sources, text, options});
  Compilers& c = compilers();
  std::unique_lock lock(c.mutex);
  if (!add_job(c, device, job)) return nullptr;
  c.job_done.wait(lock, [&] { return job->done; });
  return job->succeeded ? job->source : nullptr;
}

EventReference compile_for_launch(const Device& device,
                                  const std::shared_ptr<const CompilerSource>& source,
                                  const CompiledLaunch& launch) {
  if (source == nullptr || !is_owner()) return {};
  Compilers& c = compilers();
  const std::lock_guard lock(c.mutex);
  if (c.ready == 0) return {};
  const auto job = std::make_shared<Job>(Job{source, launch, device.api, make_user_event(device)});
  return add_job(c, device, job) ? job->compiled : EventReference();
}

void start_compilers(const Device& device) {
  if (device.compilers == 0 || g_ended || has_other_owner()) return;
  Compilers& c = compilers();
  const std::lock_guard lock(c.mutex);
  if (c.processes.empty() && !c.given_up) start(c, device);
}

void stop_compilers() noexcept {
  if (!is_owner()) return;
  Compilers& c = compilers();
  const std::lock_guard lock(c.mutex);
  for (const Process& process : c.processes) {
    kill(process.process, SIGKILL);
    shutdown(process.socket, SHUT_RDWR);
  }
  c.job_arrived.notify_all();
}

// ---- The process pocl_compiler: PoCL of the process that started it finds the results in the disk
// cache of both.

namespace {

class CompilerServer {
 public:
  CompilerServer(Device& device, int socket)
      : device_(device), socket_(socket), queue_(make_queue(device, 0)) {}

  // Until the other process closes the connection.
  void run() {
    CompilerRequest request = {};
    while (receive_all(socket_, &request, sizeof request)) {
      std::string source(request.source_bytes, '\0');
      std::string options(request.options_bytes, '\0');
      std::string kernel(request.kernel_bytes, '\0');
      std::vector<int32_t> arguments(request.argument_count);
      if (!receive_all(socket_, source.data(), source.size()) ||
          !receive_all(socket_, options.data(), options.size()) ||
          !receive_all(socket_, kernel.data(), kernel.size()) ||
          !receive_all(socket_, arguments.data(), arguments.size() * sizeof(int32_t))) {
        return;
      }
      const cl_program program = program_of(request.source_number, source, options);
      if (program != nullptr && !kernel.empty()) compile(program, kernel, arguments, request);
      if (!send_all(socket_, &kCompiled, 1)) return;
    }
  }

 private:
  // NULL if it does not build: the other process builds it as well and reports the error.
  cl_program program_of(uint64_t number, const std::string& source, const std::string& options) {
    const auto found = programs_.find(number);
    if (found != programs_.end()) return found->second;
    const OpenCL& api = *device_.api;
    const char* texts[] = {source.c_str()};
    cl_int code = CL_SUCCESS;
    cl_program program = api.clCreateProgramWithSource(device_.context, 1, texts, nullptr, &code);
    if (code != CL_SUCCESS) return nullptr;
    code = api.clBuildProgram(program, 1, &device_.id, options.c_str(), nullptr, nullptr);
    if (code != CL_SUCCESS) {
      api.clReleaseProgram(program);
      return nullptr;
    }
    programs_[number] = program;
    return program;
  }

  // Launches the kernel, which makes PoCL generate code. The code itself does nothing in this
  // process: see compiler_program.c.
  void compile(cl_program program, const std::string& name, const std::vector<int32_t>& arguments,
               const CompilerRequest& sizes) {
    const OpenCL& api = *device_.api;
    cl_int code = CL_SUCCESS;
    cl_kernel kernel = api.clCreateKernel(program, name.c_str(), &code);
    if (code != CL_SUCCESS) return;
    cl_event event = nullptr;
    if (set_arguments(kernel, arguments) &&
        api.clEnqueueNDRangeKernel(queue_->commands, kernel, sizes.dimensions, nullptr,
                                   sizes.global.data(), sizes.local.data(), 0, nullptr,
                                   &event) == CL_SUCCESS) {
      api.clWaitForEvents(1, &event);
      api.clReleaseEvent(event);
    }
    api.clReleaseKernel(kernel);
  }

  bool set_arguments(cl_kernel kernel, const std::vector<int32_t>& arguments) const {
    for (cl_uint i = 0; i < arguments.size(); ++i) {
      const std::string zeros(static_cast<size_t>(std::abs(arguments[i])), '\0');
      const void* value = arguments[i] < 0 ? nullptr : zeros.data();
      if (device_.api->clSetKernelArg(kernel, i, zeros.size(), value) != CL_SUCCESS) return false;
    }
    return true;
  }

  Device& device_;
  const int socket_;
  std::unique_ptr<ob_queue_t> queue_;
  std::unordered_map<uint64_t, cl_program> programs_;
};

}  // namespace
}  // namespace ocl

// The main function of pocl_compiler: serves requests from standard input until it is closed.
// Returns the exit status.
extern "C" __attribute__((visibility("default"))) int ob_ocl_serve_compiler() {
  try {
    ocl::find_devices();
    if (ocl::devices().size() != 1) return 1;
    ocl::CompilerServer server(*ocl::devices().front(), STDIN_FILENO);
    if (ocl::send_all(STDIN_FILENO, &ocl::kCompilerReady, 1)) server.run();
    return 0;
  } catch (const std::exception&) {
    return 1;
  }
}
