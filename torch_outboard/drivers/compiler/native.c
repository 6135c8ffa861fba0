/*
 * Programs for the processors of this machine: the compiler, its flags, and loading of results.
 *
 * Settings of all drivers that use a compiler:
 *
 *   OUTBOARD_CLANG          The command of a clang, or "none". By default the one in the package
 *                           ziglang, else the newest on PATH.
 *   OUTBOARD_CLANG_SECONDS  Time limit of a compiler process; default 300.
 *   OUTBOARD_CLANG_DIALECT  The folder of opencl.h; by default that of the package.
 */
#define _GNU_SOURCE
#include <common/system.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler.h"

enum { OLDEST_CLANG = 14 };

/* ---- The compiler of this machine ---- */

/* Whether a folder of Python packages has ziglang. */
static bool has_zig(const char* folder, void* argument) {
  found_compiler* found = argument;
  char zig[PATH_MAX];
  snprintf(zig, sizeof zig, "%s/ziglang/zig", folder);
  if (access(zig, X_OK) != 0) return false;
  snprintf(found->command, sizeof found->command, "'%s' clang", zig);
  return true;
}

/* The number in "clang-22", 0 in "clang", -1 in others. */
static int number_of(const char* name) {
  if (strncmp(name, "clang", 5) != 0) return -1;
  if (name[5] == '\0') return 0;
  const char* digits = name + 6;
  bool numbered =
      name[5] == '-' && *digits != '\0' && strspn(digits, "0123456789") == strlen(digits);
  return numbered ? atoi(digits) : -1;
}

/* clang-NUMBER of the greatest number, else clang. */
static bool find_on_path(found_compiler* found) {
  const char* path = getenv("PATH");
  int best = -1;
  while (path != NULL && *path != '\0') {
    int length = (int)strcspn(path, ":");
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", length, path);
    path += length + (path[length] == ':');
    DIR* entries = length == 0 ? NULL : opendir(folder);
    for (struct dirent* entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
      int number = number_of(entry->d_name);
      char file[2 * PATH_MAX];
      snprintf(file, sizeof file, "%s/%s", folder, entry->d_name);
      if (number <= best || strlen(file) >= sizeof found->command || access(file, X_OK) != 0) {
        continue;
      }
      best = number;
      strcpy(found->command, file);
    }
    if (entries != NULL) closedir(entries);
  }
  return best >= 0;
}

/* The command of the linker: zig has one, other compilers call the system's. */
static void choose_linker(found_compiler* found) {
  size_t length = strlen(found->command);
  const char* end = found->command + (length < 6 ? 0 : length - 6);
  if (strcmp(end, " clang") == 0) {
    snprintf(found->link, sizeof found->link, "%.*s ld.lld -shared -s", (int)(length - 6),
             found->command);
    return;
  }
  const char* quote = access(found->command, X_OK) == 0 ? "'" : "";
  snprintf(found->link, sizeof found->link, "%s%s%s -shared -nostdlib -Wl,-s", quote,
           found->command, quote);
}

ob_status find_compiler(found_compiler* found, compiler_error* error) {
  *found = (found_compiler){0};
  const char* command = read_text("OUTBOARD_CLANG");
  if (command != NULL && strcmp(command, "none") == 0) {
    return report(error, OB_UNSUPPORTED, "OUTBOARD_CLANG=none asks for no compiler.");
  }
  if (command != NULL) {
    snprintf(found->command, sizeof found->command, "%s", command);
  } else if (!visit_package_folders(has_zig, found) && !find_on_path(found)) {
    return report(error, OB_UNSUPPORTED,
                  "There is no clang: install the package ziglang, or a clang on PATH, or name one "
                  "by OUTBOARD_CLANG.");
  }
  choose_linker(found);

  uint64_t seconds = 300;
  char problem[256];
  if (!read_number("OUTBOARD_CLANG_SECONDS", 1, 86400, &seconds, problem, sizeof problem)) {
    return report(error, OB_INVALID_ARGUMENT, "%s", problem);
  }
  found->seconds = (double)seconds;

  const char* dialect = read_text("OUTBOARD_CLANG_DIALECT");
  const char *path = own_path(), *end = NULL; /* `end`: of the package's part of the path */
  for (const char* at = path; (at = strstr(at, "/drivers/")) != NULL; at++) end = at;
  if (dialect != NULL) {
    snprintf(found->dialect, sizeof found->dialect, "%s", dialect);
  } else if (end != NULL) {
    snprintf(found->dialect, sizeof found->dialect, "%.*s/dialects/clang", (int)(end - path), path);
  }
  if (access(path_in(found->dialect, "opencl.h").text, R_OK) == 0) return OB_OK;
  return report(error, OB_UNSUPPORTED,
                "The headers for clang are not in %s: install torch_outboard again, or name their "
                "folder by OUTBOARD_CLANG_DIALECT.",
                *found->dialect == '\0' ? "the driver's package" : found->dialect);
}

/* ---- Flags ---- */

static uint32_t vector_width(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return 16;
  }
  if (__builtin_cpu_supports("avx2")) return 8;
#endif
  return 4;
}

/* Vectors in kernels have the announced width, so the compiler may use 512 bits; by default it uses
 * fewer on many processors. */
static const char* processor_flags(void) {
#if defined(__x86_64__)
  return vector_width() == 16 ? "-march=native -mprefer-vector-width=512" : "-march=native";
#elif defined(__aarch64__)
  return "-mcpu=native";
#elif defined(__riscv)
  return "-march=rv64gc -mabi=lp64d";
#else
  return "";
#endif
}

/* ---- The key ---- */

static uint64_t hash_text(uint64_t value, const char* text) {
  return hash_bytes(value, text, strlen(text) + 1);
}

/* Hashes the lines of /proc/cpuinfo that identify the first processor. */
static uint64_t hash_processor(uint64_t value) {
  static const char* const names[] = {"vendor_id",       "cpu family", "model",    "stepping",
                                      "flags",           "Features",   "CPU part", "CPU variant",
                                      "CPU implementer", "isa",        "uarch"};
  FILE* file = fopen("/proc/cpuinfo", "re");
  char* line = NULL;
  size_t room = 0;
  while (file != NULL && getline(&line, &room, file) > 1) { /* up to the first empty line */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
      if (strncmp(line, names[i], strlen(names[i])) == 0) value = hash_text(value, line);
    }
  }
  free(line);
  if (file != NULL) fclose(file);
  return value;
}

/* Sum over the dialect's headers. Thread-local, because nftw passes no argument. */
static _Thread_local uint64_t header_hash;

static int hash_header(const char* path, const struct stat* state, int kind, struct FTW* place) {
  (void)state, (void)place;
  if (kind != FTW_F) return 0;
  FILE* file = fopen(path, "re");
  uint64_t value = hash_text(HASH_START, path);
  char part[4096];
  size_t count;
  while (file != NULL && (count = fread(part, 1, sizeof part, file)) > 0) {
    value = hash_bytes(value, part, count);
  }
  if (file != NULL) fclose(file);
  header_hash += value; /* files come in any order */
  return 0;
}

ob_status find_native_compiler(native_compiler* native, compiler_error* error) {
  *native = (native_compiler){.vector_width = vector_width()};
  ob_status status = find_compiler(&native->found, error);
  if (status != OB_OK) return status;
  snprintf(native->flags, sizeof native->flags,
           "%s -O3 -fPIC -ffreestanding -fno-math-errno -DOB_DIALECT_THREADS", processor_flags());
  native->compiler = (compiler){.command = native->found.command,
                                .flags = native->flags,
                                .link = native->found.link,
                                .dialect = native->found.dialect,
                                .advice = "OUTBOARD_CLANG names another clang, or none",
                                .oldest = OLDEST_CLANG,
                                .seconds = native->found.seconds};
  status = probe_compiler(&native->compiler, error);
  if (status != OB_OK) return status;
  header_hash = 0;
  nftw(native->found.dialect, hash_header, 8, FTW_PHYS);
  uint64_t key = hash_processor(header_hash);
  key = hash_text(key, native->compiler.version);
  key = hash_text(key, native->found.command);
  key = hash_text(key, native->flags);
  snprintf(native->version, sizeof native->version, "%.40s %016llx", native->compiler.version,
           (unsigned long long)key);
  return OB_OK;
}

/* ---- Loading ---- */

/* A different path of a descriptor at each call, because the loader takes libraries of one path for
 * the same one, and descriptors are reused: "//" and "/." encode the bits of the time. */
static void write_path(int descriptor, char* path) {
  path += sprintf(path, "/proc");
  for (uint64_t time = nanoseconds(); time != 0; time >>= 1) {
    path += sprintf(path, "%s", (time & 1) != 0 ? "//" : "/.");
  }
  sprintf(path, "/self/fd/%d", descriptor);
}

static bool write_all(int file, const char* data, uint64_t bytes) {
  while (bytes > 0) {
    ssize_t written = write(file, data, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    data += written;
    bytes -= (uint64_t)written;
  }
  return true;
}

/* A file in memory, or on systems without, a temporary file. */
static int create_file(void) {
  int file = -1;
#ifndef OUTBOARD_WITHOUT_MEMFD
  file = memfd_create("kernels", MFD_CLOEXEC);
#endif
  if (file >= 0) return file;
  const char* folder = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/outboard-XXXXXX",
           folder == NULL || *folder == '\0' ? "/tmp" : folder);
  file = mkostemp(path, O_CLOEXEC);
  if (file >= 0) unlink(path);
  return file;
}

static ob_status open_library(const void* data, uint64_t bytes, void** library,
                              compiler_error* error) {
  int file = create_file();
  if (file < 0) {
    return report(error, OB_ERROR,
                  "A program cannot be loaded, since no file can be created for it: %s.",
                  strerror(errno));
  }
  char path[192];
  write_path(file, path);
  ob_status status = OB_OK;
  if (!write_all(file, data, bytes)) {
    status =
        report(error, OB_ERROR, "A program cannot be loaded, since its file cannot be written: %s.",
               strerror(errno));
  } else if ((*library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL) {
    status = report(error, OB_ERROR, "A program cannot be loaded: %s", dlerror());
  }
  close(file);
  return status;
}

/* ---- Seals ---- */

/* In front of a library, so that a damaged file is refused: the loader would crash. */
typedef struct seal {
  char magic[8];
  uint64_t bytes, hash;
} seal;

static const char MAGIC[8] = {'o', 'b', '_', 'c', 'o', 'd', 'e', '1'};

ob_status compile_library(const native_compiler* used, const char* source, const char* options,
                          compiled_program* compiled, compiler_error* error) {
  ob_status status = compile_program(&used->compiler, source, options, compiled, error);
  if (status != OB_OK) return status;
  seal before = {.bytes = compiled->bytes,
                 .hash = hash_bytes(HASH_START, compiled->data, compiled->bytes)};
  memcpy(before.magic, MAGIC, sizeof MAGIC);
  char* sealed = malloc(sizeof before + compiled->bytes);
  if (sealed == NULL) {
    free_compiled(compiled);
    return report(error, OB_OUT_OF_MEMORY, "The host has no memory for a program.");
  }
  memcpy(sealed, &before, sizeof before);
  memcpy(sealed + sizeof before, compiled->data, compiled->bytes);
  free(compiled->data);
  compiled->data = sealed;
  compiled->bytes += sizeof before;
  return OB_OK;
}

ob_status load_library(const void* data, uint64_t bytes, void** library, compiler_error* error) {
  seal before = {0};
  bool whole = data != NULL && bytes > sizeof before;
  if (whole) memcpy(&before, data, sizeof before);
  const char* content = (const char*)data + sizeof before;
  if (!whole || memcmp(before.magic, MAGIC, sizeof MAGIC) != 0 ||
      before.bytes != bytes - sizeof before ||
      before.hash != hash_bytes(HASH_START, content, before.bytes)) {
    return report(error, OB_INVALID_ARGUMENT,
                  "The %llu bytes are no binary of this driver, or are damaged; build from source "
                  "again.",
                  (unsigned long long)bytes);
  }
  return open_library(content, before.bytes, library, error);
}
