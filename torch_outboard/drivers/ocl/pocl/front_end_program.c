/* The process of front_end.cpp: pocl_front_end LIBRARY, with requests in its standard input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  /* A signal from the keyboard goes to all processes of a terminal; this one ends with its input.
   */
  signal(SIGINT, SIG_IGN);
#ifdef SYS_close_range
  /* What the parent left open by mistake. */
  syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
  void* library = dlopen(arguments[1], RTLD_NOW);
  int (*serve)(void) = NULL;
  if (library != NULL) *(void**)&serve = dlsym(library, "ob_ocl_serve_front_end");
  /* Without PoCL's destructors, which may crash. */
  _exit(serve == NULL ? 2 : serve());
}
