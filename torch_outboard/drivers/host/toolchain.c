/* The compiler for kernels, if there is one, and what this machine's processors need of it. */
#define _GNU_SOURCE
#include "compiler/compiler.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

enum { OLDEST_CLANG = 14 };

/* Constant after find_toolchain. */
static compiler toolchain;
static char no_code[1024];
static uint64_t version_key;

/* FNV-1a, continued. */
static uint64_t hash_on(uint64_t value, const void* data, size_t bytes) {
  for (const unsigned char* byte = data; bytes > 0; byte++, bytes--) {
    value = (value ^ *byte) * UINT64_C(0x100000001B3);
  }
  return value;
}

uint64_t hash_bytes(const void* data, size_t bytes) {
  return hash_on(UINT64_C(0xCBF29CE484222325), data, bytes);
}

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
      if (strncmp(line, names[i], strlen(names[i])) == 0)
        value = hash_on(value, line, strlen(line));
    }
  }
  free(line);
  if (file != NULL) fclose(file);
  return value;
}

static int hash_header(const char* path, const struct stat* state, int kind, struct FTW* place) {
  if (kind != FTW_F) return 0;
  FILE* file = fopen(path, "re");
  uint64_t value = hash_bytes(path, strlen(path));
  char part[4096];
  size_t count;
  while (file != NULL && (count = fread(part, 1, sizeof part, file)) > 0) {
    value = hash_on(value, part, count);
  }
  if (file != NULL) fclose(file);
  version_key += value; /* files come in any order */
  return 0;
}

/* ---- The compiler ---- */

/* Why there is no code, once: NULL if there is. */
static void look_for_compiler(void) {
  static found_compiler found;
  static char flags[256];
  static compiler_error error;
  toolchain = (compiler){.command = found.command,
                         .flags = flags,
                         .link = found.link,
                         .dialect = found.dialect,
                         .advice = "OUTBOARD_CLANG names another clang, or none",
                         .oldest = OLDEST_CLANG};
  snprintf(flags, sizeof flags, "%s -O3 -fPIC -ffreestanding -fno-math-errno -DOB_DIALECT_THREADS",
           processor_flags());
  ob_status status = find_compiler(&found, &error);
  toolchain.seconds = found.seconds;
  if (status == OB_OK) status = probe_compiler(&toolchain, &error);
  if (status != OB_OK) {
    snprintf(no_code, sizeof no_code, "%.1000s", error.text);
    return;
  }
  version_key = 0;
  nftw(found.dialect, hash_header, 8, FTW_PHYS);
  version_key = hash_processor(version_key);
  version_key = hash_on(version_key, toolchain.version, strlen(toolchain.version));
  version_key = hash_on(version_key, found.command, strlen(found.command));
  version_key = hash_on(version_key, flags, strlen(flags));
}

void find_toolchain(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, look_for_compiler);
}

const char* no_code_reason(void) { return *no_code == '\0' ? NULL : no_code; }

void describe_code(ob_device_properties* properties) {
  if (no_code_reason() != NULL) return;
  snprintf(properties->driver_version, sizeof properties->driver_version, "1 %.40s %016llx",
           toolchain.version, (unsigned long long)version_key);
  properties->preferred_vector_width = vector_width();
  properties->max_work_group_size = 1;
  properties->local_memory = LOCAL_MEMORY_BYTES;
}

ob_status build_library(const char* source, const char* options, void** data, uint64_t* bytes) {
  if (no_code_reason() != NULL) return fail(OB_UNSUPPORTED, "%s", no_code_reason());
  compiler_error error;
  compiled_program compiled;
  ob_status status = compile_program(&toolchain, source, options, &compiled, &error);
  if (status != OB_OK) return fail(status, "%s", error.text);
  *data = compiled.data;
  *bytes = compiled.bytes;
  return OB_OK;
}

/* For `describe` of the Python module: which compiler there is, or why kernels cannot be. */
__attribute__((visibility("default"))) const char* ob_host_describe(void) {
  static char text[8192];
  find_toolchain();
  if (no_code_reason() != NULL) {
    snprintf(text, sizeof text, "no kernels: %s", no_code_reason());
  } else {
    snprintf(text, sizeof text, "kernels by %s (%s), %s, vectors of %u floats, %d threads",
             toolchain.command, toolchain.version, processor_flags(), vector_width(),
             host_settings.threads);
  }
  return text;
}
