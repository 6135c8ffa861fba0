/* Programs: shared libraries that a compiler makes of their texts, and kernels of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

/* The program and each of its kernels hold a reference. */
struct ob_program_t {
  atomic_int references;
  int32_t device;
  void* library;
  void* data; /* what program_binary gives: a header and the bytes of the library */
  uint64_t bytes;
};

/* Before the library, so that a damaged file is refused: the loader would crash on it. */
typedef struct header {
  char magic[8];
  uint64_t bytes, hash;
} header;

static const char MAGIC[8] = {'o', 'b', '_', 'h', 'o', 's', 't', '1'};

/* ---- Loading ---- */

/* The path of a descriptor, another one for each `number`, since the loader takes two libraries of
 * one path for the same, and descriptors are used again: each bit is a "/" or "/." more. */
static void write_path(int descriptor, unsigned number, char* path) {
  path += sprintf(path, "/proc");
  for (; number != 0; number >>= 1) path += sprintf(path, "%s", (number & 1) != 0 ? "//" : "/.");
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

static ob_status load(const void* data, uint64_t bytes, void** library) {
  static atomic_uint loaded;
  int file = create_file();
  if (file < 0) {
    return fail(OB_ERROR, "A program cannot be loaded, since no file can be created for it: %s.",
                strerror(errno));
  }
  char path[128];
  write_path(file, atomic_fetch_add(&loaded, 1) + 1, path);
  ob_status status = OB_OK;
  if (!write_all(file, data, bytes)) {
    status = fail(OB_ERROR, "A program cannot be loaded, since its file cannot be written: %s.",
                  strerror(errno));
  } else if ((*library = dlopen(path, RTLD_NOW | RTLD_LOCAL)) == NULL) {
    status = fail(OB_ERROR, "A program cannot be loaded: %s", dlerror());
  }
  close(file);
  return status;
}

/* ---- Programs ---- */

static void release_reference(ob_program program) {
  if (atomic_fetch_sub(&program->references, 1) != 1) return;
  dlclose(program->library);
  free(program->data);
  free(program);
}

/* Of a library's bytes, which stay the caller's. */
static ob_status create_program(int32_t device, const void* library, uint64_t bytes,
                                ob_program* program) {
  ob_program created = calloc(1, sizeof *created);
  char* data = malloc(sizeof(header) + bytes);
  ob_status status = OB_OK;
  if (created == NULL || data == NULL) {
    status = fail(OB_OUT_OF_MEMORY, "The host has no memory for a program.");
  } else {
    status = load(library, bytes, &created->library);
  }
  if (status != OB_OK) {
    free(created);
    free(data);
    return status;
  }
  header before = {.bytes = bytes, .hash = hash_bytes(library, bytes)};
  memcpy(before.magic, MAGIC, sizeof MAGIC);
  memcpy(data, &before, sizeof before);
  memcpy(data + sizeof before, library, bytes);
  created->data = data;
  created->bytes = sizeof before + bytes;
  created->device = device;
  atomic_init(&created->references, 1);
  *program = created;
  return OB_OK;
}

ob_status program_build(void* context, const ob_program_source* source, ob_program* program) {
  ob_status status = check_device(source->device);
  if (status != OB_OK) return status;
  if (source->source == NULL) return fail(OB_INVALID_ARGUMENT, "The source of a program is NULL.");
  const char* options = source->options == NULL ? "" : source->options;
  void* library;
  uint64_t bytes;
  status = build_library(source->source, options, &library, &bytes);
  if (status != OB_OK) return status;
  status = create_program(source->device, library, bytes, program);
  free(library);
  return status;
}

ob_status program_binary(void* context, ob_program program, void* data, uint64_t* bytes) {
  if (data == NULL) {
    *bytes = program->bytes;
    return OB_OK;
  }
  if (*bytes != program->bytes) {
    return fail(OB_INVALID_ARGUMENT, "The binary has %llu bytes, not %llu; ask for its size first.",
                (unsigned long long)program->bytes, (unsigned long long)*bytes);
  }
  memcpy(data, program->data, program->bytes);
  return OB_OK;
}

ob_status program_load(void* context, const ob_program_image* image, ob_program* program) {
  ob_status status = check_device(image->device);
  if (status != OB_OK) return status;
  header before = {0};
  const char* library = (const char*)image->data + sizeof before;
  uint64_t bytes = image->bytes - sizeof before;
  bool whole = image->data != NULL && image->bytes > sizeof before;
  if (whole) memcpy(&before, image->data, sizeof before);
  if (!whole || memcmp(before.magic, MAGIC, sizeof MAGIC) != 0 || before.bytes != bytes ||
      before.hash != hash_bytes(library, bytes)) {
    return fail(OB_INVALID_ARGUMENT,
                "The %llu bytes are no binary of this driver, or are damaged; build from source "
                "again.",
                (unsigned long long)image->bytes);
  }
  return create_program(image->device, library, bytes, program);
}

ob_status program_release(void* context, ob_program program) {
  release_reference(program);
  return OB_OK;
}

/* ---- Kernels ---- */

ob_status kernel_create(void* context, ob_program program, const char* name, ob_kernel* kernel) {
  char symbol[512];
  snprintf(symbol, sizeof symbol, "ob_parameters_%.400s", name);
  const uint32_t* parameters = dlsym(program->library, symbol);
  snprintf(symbol, sizeof symbol, "ob_entry_%.400s", name);
  void* entry = dlsym(program->library, symbol);
  if (entry == NULL || parameters == NULL) {
    return fail(OB_INVALID_ARGUMENT, "The program has no kernel named %s.", name);
  }
  ob_kernel created = calloc(1, sizeof *created);
  if (created == NULL) return fail(OB_OUT_OF_MEMORY, "The host has no memory for a kernel.");
  *(void**)&created->entry = entry;
  created->parameter_count = parameters[0];
  created->parameters = (const kernel_parameter*)(parameters + 1);
  created->program = program;
  created->device = program->device;
  snprintf(created->name, sizeof created->name, "%s", name);
  atomic_init(&created->references, 1);
  atomic_fetch_add(&program->references, 1);
  *kernel = created;
  return OB_OK;
}

void release_kernel(ob_kernel kernel) {
  if (atomic_fetch_sub(&kernel->references, 1) != 1) return;
  release_reference(kernel->program);
  free(kernel);
}

ob_status kernel_release(void* context, ob_kernel kernel) {
  release_kernel(kernel);
  return OB_OK;
}
