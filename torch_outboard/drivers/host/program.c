/* Programs: shared libraries compiled from source, and their kernels. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

/* The program and each of its kernels hold a reference. */
struct ob_program_t {
  atomic_int references;
  int32_t device;
  void* library;
  void* data; /* the sealed library, for program_binary */
  uint64_t bytes;
};

/* ---- The compiler ---- */

/* Constant after find_code. */
static native_compiler toolchain;
static char no_code[1024]; /* empty if there are kernels */

static void find_code_once(void) {
  if (find_target_compiler(NULL, &toolchain) == OB_OK) return;
  snprintf(no_code, sizeof no_code, "%.1000s", last_error(NULL));
}

void find_code(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, find_code_once);
}

void describe_code(ob_device_properties* properties) {
  if (*no_code != '\0') return;
  snprintf(properties->driver_version, sizeof properties->driver_version, "1 %.61s", toolchain.key);
  properties->preferred_vector_width = toolchain.vector_width;
  properties->max_work_group_size = 1;
  properties->local_memory = LOCAL_MEMORY_BYTES;
}

/* For `describe` of the Python module: the compiler, or the reason why there are no kernels. */
__attribute__((visibility("default"))) const char* ob_host_describe(void) {
  static char text[16384];
  find_code();
  if (*no_code != '\0') {
    snprintf(text, sizeof text, "no kernels: %s", no_code);
  } else {
    snprintf(text, sizeof text, "kernels by %s (%s), vectors of %u floats, flags %s",
             toolchain.command, toolchain.version, toolchain.vector_width, toolchain.flags);
  }
  return text;
}

/* ---- Programs ---- */

static void release_reference(ob_program program) {
  if (atomic_fetch_sub(&program->references, 1) != 1) return;
  dlclose(program->library);
  free(program->data);
  free(program);
}

/* Creates a program from a sealed library. Takes ownership of `data`, also on failure. */
static ob_status create_program(int32_t device, void* data, uint64_t bytes, ob_program* program) {
  void* library = NULL;
  ob_program created = malloc(sizeof *created);
  ob_status status = created == NULL || data == NULL
                         ? fail(OB_OUT_OF_MEMORY, "The host has no memory for a program.")
                         : load_library(data, bytes, &library);
  if (status != OB_OK) {
    free(created);
    free(data);
    return status;
  }
  *created =
      (struct ob_program_t){.device = device, .library = library, .data = data, .bytes = bytes};
  atomic_init(&created->references, 1);
  *program = created;
  return OB_OK;
}

ob_status program_build(void* context, const ob_program_source* source, ob_program* program) {
  ob_status status = check_device(source->device);
  if (status != OB_OK) return status;
  if (source->source == NULL) return fail(OB_INVALID_ARGUMENT, "The source of a program is NULL.");
  if (*no_code != '\0') return fail(OB_UNSUPPORTED, "%s", no_code);
  const char* options = source->options == NULL ? "" : source->options;
  void* data;
  uint64_t bytes;
  status = compile_library(source->source, options, &data, &bytes);
  return status == OB_OK ? create_program(source->device, data, bytes, program) : status;
}

ob_status program_binary(void* context, ob_program program, void* data, uint64_t* bytes) {
  if (data == NULL) {
    *bytes = program->bytes;
    return OB_OK;
  }
  if (*bytes < program->bytes) {
    return fail(OB_INVALID_ARGUMENT, "The binary has %llu bytes, not %llu; ask for its size first.",
                (unsigned long long)program->bytes, (unsigned long long)*bytes);
  }
  memcpy(data, program->data, program->bytes);
  *bytes = program->bytes;
  return OB_OK;
}

ob_status program_load(void* context, const ob_program_image* image, ob_program* program) {
  ob_status status = check_device(image->device);
  if (status != OB_OK) return status;
  void* copy = malloc(image->bytes + 1); /* of an image of 0 bytes, too */
  if (copy != NULL && image->data != NULL) memcpy(copy, image->data, image->bytes);
  return create_program(image->device, copy, image->data == NULL ? 0 : image->bytes, program);
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
