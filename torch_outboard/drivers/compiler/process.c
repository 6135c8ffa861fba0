/*
 * Commands in processes of their own, and temporary folders for their files. posix_spawn starts the
 * processes: unlike a fork it does not copy the memory of this process.
 */
#define _GNU_SOURCE
#include <common/system.h>
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler.h"

extern char** environ;

/* Stored output. A compiler that prints more is read on, so that it can end. */
enum { OUTPUT_BYTES = 64 * 1024, POLL_MILLISECONDS = 20 };

/* ---- Words ---- */

/* Owns `word`. */
static void append_word(words* list, char* word) {
  if (list->count + 1 >= list->room) {
    size_t room = list->room == 0 ? 16 : 2 * list->room;
    char** items = realloc(list->items, room * sizeof *items);
    if (items != NULL) {
      list->items = items;
      list->room = room;
    } else {
      free(word);
      word = NULL;
    }
  }
  if (word == NULL) {
    list->failed = true;
    return;
  }
  list->items[list->count++] = word;
  list->items[list->count] = NULL;
}

void add_word(words* list, const char* word) { append_word(list, strdup(word)); }

void add_words(words* list, const char* text) {
  while (!list->failed) {
    while (isspace((unsigned char)*text)) text++;
    if (*text == '\0') return;
    char* word = malloc(strlen(text) + 1);
    size_t length = 0;
    char quote = '\0';
    for (; *text != '\0' && (quote != '\0' || !isspace((unsigned char)*text)); text++) {
      if (quote == '\0' && (*text == '"' || *text == '\'')) {
        quote = *text;
      } else if (*text == quote) {
        quote = '\0';
      } else {
        if (*text == '\\' && quote != '\'' && text[1] != '\0') text++;
        if (word != NULL) word[length++] = *text;
      }
    }
    if (word != NULL) word[length] = '\0';
    append_word(list, word);
  }
}

void add_command(words* list, const char* command) {
  if (access(command, X_OK) == 0) {
    add_word(list, command);
  } else {
    add_words(list, command);
  }
}

void free_words(words* list) {
  for (size_t i = 0; i < list->count; i++) free(list->items[i]);
  free(list->items);
  *list = (words){0};
}

/* ---- Starting ---- */

/* The environment with TMPDIR=folder, so that files of a killed compiler go with the folder, and
 * with messages in English, in which "error" is looked for. */
static bool add_environment(words* list, const char* folder) {
  char* variable_of_folder;
  if (asprintf(&variable_of_folder, "TMPDIR=%s", folder) < 0) return false;
  append_word(list, variable_of_folder);
  add_word(list, "LC_ALL=C");
  for (char** variable = environ; variable != NULL && *variable != NULL; variable++) {
    if (strncmp(*variable, "TMPDIR=", 7) != 0 && strncmp(*variable, "LC_ALL=", 7) != 0) {
      add_word(list, *variable);
    }
  }
  return !list->failed;
}

/* Closes all descriptors from 3 in the child. Older C libraries have no function for that; then
 * each open descriptor of the process is closed. */
static int close_others(posix_spawn_file_actions_t* actions) {
#ifndef OUTBOARD_WITHOUT_CLOSEFROM
  int (*close_from)(posix_spawn_file_actions_t*, int);
  *(void**)&close_from = dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np");
  if (close_from != NULL) return close_from(actions, 3);
#endif
  DIR* open_files = opendir("/proc/self/fd");
  if (open_files == NULL) return 0; /* those without O_CLOEXEC stay open */
  int error = 0;
  for (struct dirent* entry; error == 0 && (entry = readdir(open_files)) != NULL;) {
    int descriptor = atoi(entry->d_name);
    if (descriptor < 3 || descriptor == dirfd(open_files)) continue;
    error = posix_spawn_file_actions_addclose(actions, descriptor);
  }
  closedir(open_files);
  return error;
}

/* Starts the command in a new process group, with default signal handling. */
static int start(const words* command, char* const* environment, int output, pid_t* process) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int error = posix_spawn_file_actions_init(&actions);
  if (error != 0) return error;
  error = posix_spawnattr_init(&attributes);
  if (error != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return error;
  }
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  error = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, output, 1);
  if (error == 0) error = posix_spawn_file_actions_adddup2(&actions, output, 2);
  if (error == 0) error = close_others(&actions);
  if (error == 0) {
    error = posix_spawnp(process, command->items[0], &actions, &attributes, command->items,
                         environment);
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/* ---- Waiting ---- */

/* Reads available output without waiting. False at its end. */
static bool read_available(int descriptor, char* output, size_t* length) {
  char rest[4096];
  for (;;) {
    size_t room = OUTPUT_BYTES - *length;
    ssize_t count =
        room > 0 ? read(descriptor, output + *length, room) : read(descriptor, rest, sizeof rest);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    if (room > 0) *length += (size_t)count;
  }
}

/* Whether the process has ended, and how. */
static bool has_ended(pid_t process, command_result* result) {
  int status = 0;
  pid_t ended = waitpid(process, &status, WNOHANG);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  if (ended < 0) {
    result->exit_status = -1; /* another thread has waited for it */
  } else if (WIFSIGNALED(status)) {
    result->signal = WTERMSIG(status);
  } else {
    result->exit_status = WEXITSTATUS(status);
  }
  return true;
}

/* A process may close its output and go on, or end while a child of it holds the output open: both
 * are checked in turn. */
static void wait_for(pid_t process, int descriptor, double seconds, command_result* result) {
  uint64_t deadline = nanoseconds() + (uint64_t)(1e9 * seconds);
  size_t length = 0;
  bool open = true, ended = false;
  while (!ended) {
    struct pollfd pipe = {.fd = open ? descriptor : -1, .events = POLLIN};
    /* The end of the output comes right before that of the process. */
    poll(&pipe, 1, open ? POLL_MILLISECONDS : 1);
    if (open) open = read_available(descriptor, result->output, &length);
    ended = has_ended(process, result);
    if (!ended && nanoseconds() >= deadline) {
      result->timed_out = true;
      kill(-process, SIGKILL);
      kill(process, SIGKILL); /* it may not have reached its group yet */
      while (waitpid(process, NULL, 0) < 0 && errno == EINTR) {
      }
      ended = true;
    }
  }
  if (open) read_available(descriptor, result->output, &length);
  result->output[length] = '\0';
}

bool run_command_line(const words* command, const char* folder, double seconds,
                      command_result* result) {
  *result = (command_result){.output = malloc(OUTPUT_BYTES + 1)};
  words environment = {0};
  bool complete = result->output != NULL && !command->failed && command->count > 0 &&
                  add_environment(&environment, folder);
  if (!complete) {
    free_words(&environment);
    free(result->output);
    return false;
  }
  result->output[0] = '\0';
  int ends[2];
  pid_t process = -1;
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result->error = errno;
  } else {
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    result->error = start(command, environment.items, ends[1], &process);
    close(ends[1]);
    if (result->error == 0) wait_for(process, ends[0], seconds, result);
    close(ends[0]);
  }
  free_words(&environment);
  return true;
}

/* ---- Temporary folders, and files in them ---- */

path path_in(const char* folder, const char* name) {
  path joined;
  snprintf(joined.text, sizeof joined.text, "%s/%s", folder, name);
  return joined;
}

char* create_folder(compiler_error* error) {
  const char* parent = getenv("TMPDIR");
  if (parent == NULL || *parent == '\0') parent = "/tmp";
  char* folder = strdup(path_in(parent, "outboard-XXXXXX").text);
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
