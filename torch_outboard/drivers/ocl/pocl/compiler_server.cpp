// What runs in the process pocl_compiler: it compiles for the process that started it, whose PoCL
// finds the results in the disk cache of both.
#include "compiler_messages.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>

namespace ocl {

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
