/*
 * Looks at a shared library before dlopen does: opening a FIFO waits for ever, and the system ends
 * a process that touches the missing end of a truncated library. For the kit and for drivers that
 * load libraries themselves; C and C++, nothing to link.
 */
#ifndef OUTBOARD_LIBRARY_FILE_H
#define OUTBOARD_LIBRARY_FILE_H

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The header of the library or program that this is compiled into; the linker defines it. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

/* Whether [offset, offset + bytes) lies in a file of `size` bytes. */
static inline int ob_library_covers(uint64_t size, uint64_t offset, uint64_t bytes) {
  return offset <= size && bytes <= size - offset;
}

static inline const char* ob_library_problem_of_open(int file, uint64_t size) {
  const char* truncated = "is a shared library without its end";
  ElfW(Ehdr) header;
  if (pread(file, &header, sizeof header, 0) != (ssize_t)sizeof header ||
      memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    return "is no shared library";
  }
  if (header.e_ident[EI_CLASS] != __ehdr_start.e_ident[EI_CLASS] ||
      header.e_ident[EI_DATA] != __ehdr_start.e_ident[EI_DATA] ||
      header.e_machine != __ehdr_start.e_machine) {
    return "was compiled for another processor than that of this process";
  }
  if (header.e_type != ET_DYN) return "is no shared library but another kind of ELF file";
  if (header.e_phentsize != sizeof(ElfW(Phdr)) || header.e_phnum == 0) {
    return "is a shared library with damaged headers";
  }
  if (!ob_library_covers(size, header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize) ||
      (header.e_shoff != 0 &&
       !ob_library_covers(size, header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize))) {
    return truncated;
  }
  for (unsigned i = 0; i < header.e_phnum; i++) {
    ElfW(Phdr) segment;
    const uint64_t at = header.e_phoff + (uint64_t)i * sizeof segment;
    if (pread(file, &segment, sizeof segment, (off_t)at) != (ssize_t)sizeof segment) {
      return truncated;
    }
    if (!ob_library_covers(size, segment.p_offset, segment.p_filesz)) return truncated;
  }
  for (unsigned i = 0; header.e_shoff != 0 && i < header.e_shnum; i++) {
    ElfW(Shdr) section;
    if (header.e_shentsize != sizeof section) return "is a shared library with damaged headers";
    const uint64_t at = header.e_shoff + (uint64_t)i * sizeof section;
    if (pread(file, &section, sizeof section, (off_t)at) != (ssize_t)sizeof section) {
      return truncated;
    }
    if (section.sh_type != SHT_NOBITS &&
        !ob_library_covers(size, section.sh_offset, section.sh_size)) {
      return truncated;
    }
  }
  return NULL;
}

/* NULL if `path` can be given to dlopen, else the second half of a sentence that begins with the
 * path. A name without "/" is not looked at: dlopen searches for it. */
static inline const char* ob_library_problem(const char* path) {
  if (strchr(path, '/') == NULL) return NULL;
  struct stat status;
  /* Before it is opened: opening a device may do something. */
  if (stat(path, &status) != 0) {
    return errno == ENOENT || errno == ENOTDIR ? "does not exist" : strerror(errno);
  }
  if (S_ISDIR(status.st_mode)) return "is a folder and no shared library";
  if (!S_ISREG(status.st_mode)) return "is not a regular file";
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return errno == EACCES ? "cannot be read with these permissions" : strerror(errno);
  const char* problem = NULL;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    problem = "is not a regular file";
  } else {
    problem = ob_library_problem_of_open(file, (uint64_t)status.st_size);
  }
  close(file);
  return problem;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* OUTBOARD_LIBRARY_FILE_H */
