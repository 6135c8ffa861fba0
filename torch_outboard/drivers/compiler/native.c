/* Programs for the processors of this machine: how to compile for them, and loading what comes of
 * it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads/threads.h>
#include <unistd.h>

#include "compiler.h"

enum { OLDEST_CLANG = 14 };

/* ---- Processors ---- */

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

/* Vectors in kernels are as wide as the device says, so the compiler may use all of each register;
 * by itself it stays below 512 bits on many processors. */
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

/* FNV-1a, continued. */
static uint64_t hash_on(uint64_t value, const void* data, size_t bytes) {
  for (const unsigned char* byte = data; bytes > 0; byte++, bytes--) {
    value = (value ^ *byte) * UINT64_C(0x100000001B3);
  }
  return value;
}

static uint64_t hash_bytes(const void* data, size_t bytes) {
  return hash_on(UINT64_C(0xCBF29CE484222325), data, bytes);
}

static uint64_t hash_text(uint64_t value, const char* text) {
  return hash_on(value, text, strlen(text) + 1);
}

/* What tells processors apart in /proc/cpuinfo, of the first one. */
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

/* Of the dialect's headers; nftw passes nothing on, and threads may look at once. */
static _Thread_local uint64_t header_hash;

static int hash_header(const char* path, const struct stat* state, int kind, struct FTW* place) {
  (void)state, (void)place;
  if (kind != FTW_F) return 0;
  FILE* file = fopen(path, "re");
  uint64_t value = hash_bytes(path, strlen(path));
  char part[4096];
  size_t count;
  while (file != NULL && (count = fread(part, 1, sizeof part, file)) > 0) {
    value = hash_on(value, part, count);
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

/* The path of a descriptor, another one each time, since the loader takes two libraries of one path
 * for the same, and descriptors are used again: "//" and "/." are the bits of the time. */
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

/* Memory that looks like a file, or where there is no such thing, a temporary file. */
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

/* Before a library, so that a damaged file is refused: the loader would crash on it. */
typedef struct seal {
  char magic[8];
  uint64_t bytes, hash;
} seal;

static const char MAGIC[8] = {'o', 'b', '_', 'c', 'o', 'd', 'e', '1'};

ob_status compile_library(const native_compiler* used, const char* source, const char* options,
                          compiled_program* compiled, compiler_error* error) {
  ob_status status = compile_program(&used->compiler, source, options, compiled, error);
  if (status != OB_OK) return status;
  seal before = {.bytes = compiled->bytes, .hash = hash_bytes(compiled->data, compiled->bytes)};
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
      before.bytes != bytes - sizeof before || before.hash != hash_bytes(content, before.bytes)) {
    return report(error, OB_INVALID_ARGUMENT,
                  "The %llu bytes are no binary of this driver, or are damaged; build from source "
                  "again.",
                  (unsigned long long)bytes);
  }
  return open_library(content, before.bytes, library, error);
}
