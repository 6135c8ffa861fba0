/* Temporary folders, and files in them. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler.h"

char* path_in(const char* folder, const char* name) {
  char* path;
  return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

char* create_folder(compiler_error* error) {
  const char* parent = getenv("TMPDIR");
  if (parent == NULL || *parent == '\0') parent = "/tmp";
  char* folder = path_in(parent, "outboard-XXXXXX");
  if (folder == NULL) {
    report(error, OB_OUT_OF_MEMORY, "The host has no memory to compile a program.");
    return NULL;
  }
  if (mkdtemp(folder) != NULL) return folder;
  report(error, OB_ERROR,
         "Programs are compiled in a temporary folder, and none can be created in %.300s: %s; name "
         "another place by TMPDIR.",
         parent, strerror(errno));
  free(folder);
  return NULL;
}

static int remove_entry(const char* path, const struct stat* state, int kind, struct FTW* place) {
  (void)state, (void)kind, (void)place;
  remove(path);
  return 0;
}

void remove_folder(char* folder) {
  if (folder == NULL) return;
  nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
  free(folder);
}

static bool cannot(compiler_error* error, const char* what, const char* path, int code) {
  report(error, OB_ERROR,
         "The temporary file %.300s cannot be %s: %s; make room, or name another place by TMPDIR.",
         path, what, strerror(code));
  return false;
}

bool write_content(const char* path, const void* content, uint64_t bytes, compiler_error* error) {
  FILE* file = fopen(path, "we");
  if (file == NULL) return cannot(error, "written", path, errno);
  bool written = fwrite(content, 1, bytes, file) == bytes;
  int code = errno;
  if (fclose(file) != 0 && written) {
    written = false;
    code = errno;
  }
  return written || cannot(error, "written", path, code);
}

char* read_content(const char* path, uint64_t* bytes, compiler_error* error) {
  FILE* file = fopen(path, "re");
  struct stat state;
  if (file == NULL || fstat(fileno(file), &state) != 0) {
    cannot(error, "read", path, errno);
    if (file != NULL) fclose(file);
    return NULL;
  }
  size_t size = (size_t)state.st_size;
  char* content = malloc(size + 1);
  if (content == NULL) {
    report(error, OB_OUT_OF_MEMORY, "The host has no memory for a program of %zu bytes.", size);
  } else if (fread(content, 1, size, file) != size) {
    cannot(error, "read", path, EIO);
    free(content);
    content = NULL;
  } else {
    content[size] = '\0';
    *bytes = size;
  }
  fclose(file);
  return content;
}
