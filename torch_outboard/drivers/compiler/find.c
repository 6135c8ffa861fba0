/* Which compiler there is on this machine, and the settings of all drivers that use one:
 *
 *   OUTBOARD_CLANG          The command of a clang, or "none". By default the one in the package
 *                           ziglang, else the newest on PATH.
 *   OUTBOARD_CLANG_SECONDS  After which a compiler is ended; default 300.
 *   OUTBOARD_CLANG_DIALECT  The folder of opencl.h; by default that of the package.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <settings/settings.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler.h"

/* ---- ziglang ---- */

/* Whether `folder`, where Python packages lie, has the package ziglang. */
static bool has_zig(const char* folder, int length, found_compiler* found) {
  char zig[PATH_MAX];
  snprintf(zig, sizeof zig, "%.*s/ziglang/zig", length, folder);
  if (access(zig, X_OK) != 0) return false;
  snprintf(found->command, sizeof found->command, "'%s' clang", zig);
  return true;
}

/* The folder of one library that the process has loaded, if that is one of packages. */
static int look_beside(struct dl_phdr_info* info, size_t bytes, void* argument) {
  (void)bytes;
  static const char* const names[] = {"/site-packages/", "/dist-packages/"};
  const char* path = info->dlpi_name == NULL ? "" : info->dlpi_name;
  for (int i = 0; i < 2; i++) {
    const char* start = strstr(path, names[i]);
    if (start == NULL) continue;
    int length = (int)(start - path) + (int)strlen(names[i]) - 1;
    if (has_zig(path, length, argument)) return 1;
  }
  return 0;
}

/* Where this library lies, up to `part` of its path; -1 if that is elsewhere. */
static int own_folder(const char* part, const char** path) {
  Dl_info own;
  if (dladdr((void*)&find_compiler, &own) == 0 || own.dli_fname == NULL) return -1;
  const char* end = NULL;
  for (const char* c = own.dli_fname; (c = strstr(c, part)) != NULL; c++) end = c;
  *path = own.dli_fname;
  return end == NULL ? -1 : (int)(end - own.dli_fname);
}

/* Beside this package, or where libraries of this process come from: the second finds it when this
 * library lies in a source tree. */
static bool find_zig(found_compiler* found) {
  const char* path;
  int length = own_folder("/torch_outboard/drivers/", &path);
  if (length >= 0 && has_zig(path, length, found)) return true;
  return dl_iterate_phdr(look_beside, found) != 0;
}

/* ---- PATH ---- */

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

/* ---- Settings ---- */

static const char* setting(const char* name) {
  const char* text = getenv(name);
  return text == NULL || *text == '\0' ? NULL : text;
}

/* The linker beside the compiler: zig brings one as a command of its own, and others look for the
 * system's. */
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
  const char* command = setting("OUTBOARD_CLANG");
  if (command != NULL && strcmp(command, "none") == 0) {
    return report(error, OB_UNSUPPORTED, "OUTBOARD_CLANG=none asks for no compiler.");
  }
  if (command != NULL) {
    snprintf(found->command, sizeof found->command, "%s", command);
  } else if (!find_zig(found) && !find_on_path(found)) {
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

  const char* dialect = setting("OUTBOARD_CLANG_DIALECT");
  const char* path;
  int length = own_folder("/drivers/", &path);
  if (dialect != NULL) {
    snprintf(found->dialect, sizeof found->dialect, "%s", dialect);
  } else if (length >= 0) {
    snprintf(found->dialect, sizeof found->dialect, "%.*s/dialects/clang", length, path);
  }
  char* header = path_in(found->dialect, "opencl.h");
  bool there = header != NULL && access(header, R_OK) == 0;
  free(header);
  if (there) return OB_OK;
  return report(error, OB_UNSUPPORTED,
                "The headers for clang are not in %s: install torch_outboard again, or name their "
                "folder by OUTBOARD_CLANG_DIALECT.",
                *found->dialect == '\0' ? "the driver's package" : found->dialect);
}
