/*
 * Programs by a C compiler, for hardware with a C compiler and no OpenCL: a clang compiles OpenCL C
 * behind the headers in torch_outboard/dialects/clang.
 *
 *   native.cpp    the clang of this machine, its settings, its flags for each processor; loading
 *   compiler.cpp  the steps from the source of a program to machine code, with entries of kernels
 *   process.cpp   a command in a process of its own, with a time limit; temporary folders
 *
 * Any thread may call any function, several at once. A driver compiles these files into its
 * library. The functions for drivers in C++ throw drivers::Failure.
 */
#ifndef OUTBOARD_DRIVERS_COMPILER_H
#define OUTBOARD_DRIVERS_COMPILER_H

#include <outboard/driver.h>

#ifdef __cplusplus
#include <string>
#include <string_view>
#include <vector>

namespace compiler {

/* ---- compiler.cpp */

/* How to compile. Commands and flags are words as a shell reads them: blanks part them, quotes and
 * backslashes keep them together. A command that is the path of a file may hold blanks without
 * quotes. */
struct Compiler {
  std::string command; /* a clang, such as "clang" or "/opt/zig/zig clang" */
  std::string flags;   /* of all programs: target, processor, optimization */
  std::string link;    /* gets "-o RESULT OBJECT OBJECT" at its end, such as "ld -shared" */
  std::string dialect; /* the folder of opencl.h */
  std::string advice;  /* half a sentence: how to name another compiler */
  uint64_t seconds;    /* after which a process is ended */
};

/* The line that the compiler calls itself. Throws OB_UNSUPPORTED if it cannot be started, does not
 * end, is no clang, or is older than the major version `oldest`. */
std::string version_of(const Compiler& used, int oldest);

/* Compiles OpenCL C with OpenCL's `options`, such as "-D N=4", to an ELF file. For each kernel NAME
 * it has the function ob_entry_NAME, which dialects/clang/entry.h describes, and its parameters:
 *
 *   const uint32_t ob_parameters_NAME[] = {count, kind, bytes, kind, bytes ...};
 *
 * The kind of pointers is OB_ARGUMENT_ADDRESS, also to local memory, that of others
 * OB_ARGUMENT_VALUE.
 *
 * Throws OB_BUILD_FAILED if the compiler refuses the source; OB_ERROR if it cannot be started, does
 * not end in time, is ended by a signal, writes something else than an ELF file, or if the
 * temporary folder cannot be written. */
std::string compile_program(const Compiler& used, const std::string& source,
                            const std::string& options);

/* ---- native.cpp */

struct NativeCompiler : Compiler {
  std::string version;
  std::string key; /* tells compilers, dialects and processors apart */
};

/* The compiler for this machine's processors. Throws OB_UNSUPPORTED if there is none. */
NativeCompiler find_native();
/* The same clang for another processor, which `target` names, such as
 * "--target=riscv64-unknown-elf -march=rv64gc -mabi=lp64d". Programs are position-independent ELF
 * files without undefined symbols, for one thread at a time. */
NativeCompiler find_for_target(const std::string& target);

/* ---- process.cpp */

using Words = std::vector<std::string>;

/* All words of a text, split like in a shell. */
Words words_of(const std::string& text);
/* Those of a command, which may be the path of a file. */
Words command_of(const std::string& text);

struct Result {
  int error = 0;          /* of starting it; 0: it was started */
  bool timed_out = false; /* it was killed, with all processes that it started */
  int signal = 0;         /* that ended it; 0: none */
  int exit_status = 0;    /* -1: not known, because the application ignores SIGCHLD */
  std::string output;     /* the first 64 KiB */
};

/* Runs a command with `folder` as its temporary folder, without input, and with no descriptor of
 * this process. */
Result run_command(const Words& command, const std::string& folder, uint64_t seconds);

/* A temporary folder in TMPDIR or /tmp that only this user can look into. */
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string operator/(const char* name) const { return path + "/" + name; }

  std::string path;
};

void write_content(const std::string& path, std::string_view content);
std::string read_content(const std::string& path);

} /* namespace compiler */

extern "C" {
#endif

/* ---- What compiled programs hold: compile_program says under which names */

/* The first argument of an entry: ob_range of dialects/clang/entry.h. */
typedef struct item_range {
  uint64_t first[3], last[3], global_size[3], global_offset[3], dimensions;
} item_range;

/* `kind` is OB_ARGUMENT_ADDRESS for pointers, else OB_ARGUMENT_VALUE. */
typedef struct kernel_parameter {
  uint32_t kind, bytes;
} kernel_parameter;

/* Fails unless a launch suits a kernel with these parameters, whose machine code checks nothing;
 * stores its work-items. */
ob_status read_launch(const ob_launch* launch, const char* kernel,
                      const kernel_parameter* parameters, uint32_t count, item_range* items);

/* ---- native.cpp, for drivers in C. Failures store their message as `fail` does. */

/* The compiler, constant once it was found. */
typedef struct native_compiler {
  const char *command, *flags, *version;
  const char* key;       /* tells compilers, dialects and processors apart */
  uint32_t vector_width; /* of float32; 0: unknown */
} native_compiler;

/* The first of these calls that succeeds chooses the compiler of the library. OB_UNSUPPORTED if
 * there is none. `target` is as for find_for_target; NULL: this machine. */
ob_status find_target_compiler(const char* target, native_compiler* found);
/* A program as an ELF file, sealed so that damage shows; `data` is for free. */
ob_status compile_library(const char* source, const char* options, void** data, uint64_t* bytes);
/* Loads such a file of this machine's, for dlclose. OB_INVALID_ARGUMENT if it is damaged. */
ob_status load_library(const void* data, uint64_t bytes, void** library);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OUTBOARD_DRIVERS_COMPILER_H */
