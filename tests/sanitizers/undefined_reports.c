// Sends what UndefinedBehaviorSanitizer finds to the files that UNDEFINED_REPORTS names.
//
// libasan and libubsan of GCC each keep a path of reports, and export a function of the same name
// that sets it. What libubsan sets from UBSAN_OPTIONS is therefore the path of libasan, and its own
// reports go to the standard error.
#include <dlfcn.h>
#include <stdlib.h>

typedef void (*set_path)(const char*);

__attribute__((constructor)) static void set_report_path(void) {
  const char* path = getenv("UNDEFINED_REPORTS");
  void* library = dlopen("libubsan.so.1", RTLD_NOW);
  if (path == NULL || library == NULL) return;
  const set_path set = (set_path)dlsym(library, "__sanitizer_set_report_path");
  if (set != NULL) set(path);
}
