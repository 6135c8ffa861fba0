/* What this process and pocl_compiler send each other over a socket. */
#ifndef OUTBOARD_DRIVERS_OCL_COMPILER_MESSAGES_H
#define OUTBOARD_DRIVERS_OCL_COMPILER_MESSAGES_H

#include "../ocl.h"

namespace ocl {

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

// False if the peer is gone.
bool send_all(int socket, const void* data, size_t bytes);
bool receive_all(int socket, void* data, size_t bytes);

}  // namespace ocl

#endif  // OUTBOARD_DRIVERS_OCL_COMPILER_MESSAGES_H
