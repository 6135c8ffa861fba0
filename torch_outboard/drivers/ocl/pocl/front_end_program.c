/* pocl_front_end LIBRARY: runs PoCL's front end for requests on standard input (front_end.cpp). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char** arguments) {
  if (count != 2) return 2;
  /* Ctrl-C signals all processes of the terminal; this one exits when its input is closed. */
  signal(SIGINT, SIG_IGN);
#ifdef SYS_close_range
  /* Closes descriptors that the parent has without O_CLOEXEC. */
  syscall(SYS_close_range, 3U, ~0U, 0U);
#endif
  void* library = dlopen(arguments[1], RTLD_NOW);
  int (*serve)(void) = NULL;
  if (library != NULL) *(void**)&serve = dlsym(library, "ob_ocl_serve_front_end");
  /* Skips PoCL's static destructors, which may crash. */
  _exit(serve == NULL ? 2 : serve());
}
