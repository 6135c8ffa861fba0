/*
 * Programs by a C compiler, for hardware with a C compiler and no OpenCL: a clang compiles OpenCL C
 * behind the headers in torch_outboard/dialects/clang.
 *
 *   native.c    the compiler of this machine, its settings, programs for this machine's processors
 *   compiler.c  the steps from the source of a program to machine code
 *   process.c   a command in a process of its own, with a time limit; temporary folders
 *   kernels.c   finds kernels in a source, and writes the entries that call them
 *
 * Any thread may call any function, several at once. Each call runs processes and waits for them;
 * no state is left that a fork would have to handle. A driver compiles these files into its
 * library.
 */
#ifndef OUTBOARD_DRIVERS_COMPILER_H
#define OUTBOARD_DRIVERS_COMPILER_H

#include <outboard/driver.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- compiler.c ---- */

/* The message of a failed call: one sentence with the command, then the compiler's log. */
typedef struct compiler_error {
  char text[8192];
} compiler_error;

/* How to compile. Texts live as long as the calls. Commands and flags are words as a shell reads
 * them: blanks part them, quotes and backslashes keep them together. A command that is the path of
 * a file may hold blanks without quotes. */
typedef struct compiler {
  const char* command; /* a clang, such as "clang" or "/opt/zig/zig clang" */
  const char* flags;   /* of all programs: target, processor, optimization */
  const char* link;    /* gets "-o RESULT OBJECT OBJECT" at its end, such as "ld -shared" */
  const char* dialect; /* the folder of opencl.h */
  const char* advice;  /* half a sentence: how to name another compiler */
  int oldest;          /* major version of clang */
  double seconds;      /* after which a process is ended */
  char version[128];   /* line that the compiler calls itself; by probe_compiler */
} compiler;

/* Runs the compiler for its version. OB_UNSUPPORTED if it cannot be started, does not end, is no
 * clang, or is older than `oldest`. */
ob_status probe_compiler(compiler* probed, compiler_error* error);

typedef struct compiled_program {
  void* data; /* of an ELF file; for free_compiled */
  uint64_t bytes;
} compiled_program;

/* Compiles OpenCL C with OpenCL's `options`, such as "-D N=4". For each kernel NAME the
 * result has the function ob_entry_NAME, which dialects/clang/entry.h describes, and its
 * parameters:
 *
 *   const uint32_t ob_parameters_NAME[] = {count, kind, bytes, kind, bytes ...};
 *
 * The kind of pointers is OB_ARGUMENT_ADDRESS, also to local memory, that of others
 * OB_ARGUMENT_VALUE.
 *
 * OB_BUILD_FAILED if the compiler refuses the source; OB_OUT_OF_MEMORY; OB_ERROR if it cannot be
 * started, does not end in time, is ended by a signal, writes something else than an ELF file, or
 * if the temporary folder cannot be written. */
ob_status compile_program(const compiler* used, const char* source, const char* options,
                          compiled_program* compiled, compiler_error* error);
void free_compiled(compiled_program* compiled);

/* ---- native.c ---- */

typedef struct found_compiler {
  char command[8192];   /* for `command` of a compiler */
  char link[8192 + 64]; /* for `link`, to make a library of this machine */
  char dialect[4096];
  double seconds;
} found_compiler;

/* Looks for a clang on this machine and reads the settings; runs nothing. OB_UNSUPPORTED if there
 * is none or it is not wanted. */
ob_status find_compiler(found_compiler* found, compiler_error* error);

typedef struct native_compiler {
  compiler compiler;
  found_compiler found;
  char flags[256];
  uint32_t vector_width; /* of float32 */
  char version[64];      /* tells compilers, dialects and processors apart */
} native_compiler;

/* Finds a compiler for this machine's processors and its version. `native` must not be moved. */
ob_status find_native_compiler(native_compiler* native, compiler_error* error);
/* compile_program for a library that this machine can load, sealed so that damage shows. */
ob_status compile_library(const native_compiler* used, const char* source, const char* options,
                          compiled_program* compiled, compiler_error* error);
/* Loads such a library, for dlclose. OB_INVALID_ARGUMENT if it is damaged. */
ob_status load_library(const void* data, uint64_t bytes, void** library, compiler_error* error);

/* ---- process.c ---- */

/* Words of a command, ended by NULL. After `failed` the host had no memory for one. */
typedef struct words {
  char** items;
  size_t count, room;
  bool failed;
} words;

void add_word(words* list, const char* word);
/* All words of a text, split like in a shell. */
void add_words(words* list, const char* text);
/* Those of a command, which may be the path of a file. */
void add_command(words* list, const char* command);
void free_words(words* list);

typedef struct command_result {
  int error;       /* of starting it; 0: it was started */
  bool timed_out;  /* it was killed, with all processes that it started */
  int signal;      /* that ended it; 0: none */
  int exit_status; /* -1: not known, because the application ignores SIGCHLD */
  char* output;    /* the first 64 KiB of its output; never NULL, for free */
} command_result;

/* Runs a command with `folder` as its temporary folder, without input, and with no descriptor of
 * this process. False if the host has no memory; nothing is to be freed then. */
bool run_command_line(const words* command, const char* folder, double seconds,
                      command_result* result);

/* Creates a folder that only this user can look into, in TMPDIR or /tmp. NULL with the reason in
 * `error`; else for remove_folder. */
char* create_folder(compiler_error* error);
/* With all that is in it; NULL is none. */
void remove_folder(char* folder);
typedef struct path {
  char text[4096];
} path;

/* FOLDER/NAME. */
path path_in(const char* folder, const char* name);
/* Both store the reason of a failure in `error`. */
bool write_content(const char* path, const void* content, uint64_t bytes, compiler_error* error);
/* With a zero behind the content, for free. NULL if it cannot be read. */
char* read_content(const char* path, uint64_t* bytes, compiler_error* error);

/* ---- kernels.c ---- */

/* The source of an entry for each kernel that the preprocessed source defines. For free. NULL with
 * the reason in `error`, also for a source without kernels. */
char* write_entries(const char* preprocessed, compiler_error* error);

/* ---- for all ---- */

/* Stores a message and returns `status`. */
ob_status report(compiler_error* error, ob_status status, const char* format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OUTBOARD_DRIVERS_COMPILER_H */
