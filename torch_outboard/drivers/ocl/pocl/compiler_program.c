/* pocl_compiler LIBRARY: serves requests on standard input (compiler_processes.cpp). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void* (*find_symbol)(void*, const char*);

static find_symbol c_library_dlsym;

static void do_nothing(void) {}

/*
 * Replaces dlsym for all libraries of this process, PoCL included. PoCL generates code for a kernel
 * when it is launched, then loads the code, finds its entry point with dlsym and runs it. In this
 * process the entry points of kernels do nothing.
 */
__attribute__((visibility("default"))) void* dlsym(void* restrict library,
                                                   const char* restrict name) {
  static const char kernel[] = "_pocl_kernel_";
  if (strncmp(name, kernel, sizeof kernel - 1) == 0) {
    void (*entry)(void) = do_nothing;
    void* symbol;
    memcpy(&symbol, &entry, sizeof symbol);
    return symbol;
  }
  return c_library_dlsym(library, name);
}

/* Versions of dlsym: since glibc 2.34, before on x86-64, before on AArch64. */
static find_symbol find_dlsym(void) {
  static const char* const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
  for (size_t i = 0; i < sizeof versions / sizeof *versions; ++i) {
    void* symbol = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    find_symbol found;
    memcpy(&found, &symbol, sizeof found);
    if (found != NULL) return found;
  }
  return NULL;
}

int main(int count, char** arguments) {
  if (count != 2) return 2;
  c_library_dlsym = find_dlsym();
  if (c_library_dlsym == NULL) return 2;
  void* library = dlopen(arguments[1], RTLD_NOW);
  int (*serve)(void) = NULL;
  if (library != NULL) *(void**)&serve = dlsym(library, "ob_ocl_serve_compiler");
  /* Skips PoCL's static destructors, which may crash. */
  _exit(serve == NULL ? 2 : serve());
}
