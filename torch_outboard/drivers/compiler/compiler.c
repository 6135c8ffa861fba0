/* From the source of a program to machine code: preprocess, find kernels, append their entries,
 * compile, link. */
#define _GNU_SOURCE
#include "compiler.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ob_status report(compiler_error* error, ob_status status, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(error->text, sizeof error->text, format, arguments);
  va_end(arguments);
  return status;
}

static ob_status no_memory(compiler_error* error) {
  return report(error, OB_OUT_OF_MEMORY, "The host has no memory to compile a program.");
}

/* ---- Messages ---- */

/* Quoted for a shell; a long command is truncated. */
static void write_command(const words* command, char* text, size_t room) {
  size_t length = 0;
  for (size_t i = 0; i < command->count && length < room; i++) {
    const char* word = command->items[i];
    const char* quote = word[strcspn(word, " '\"\\\t\n$")] == '\0' && *word != '\0' ? "" : "'";
    int written =
        snprintf(text + length, room - length, "%s%s%s%s", i == 0 ? "" : " ", quote, word, quote);
    length += written > 0 ? (size_t)written : 0;
  }
}

/* The first line with the word "error", else the first line that is not blank. */
static const char* first_error(const char* log, int* length) {
  const char* found = strstr(log, "error");
  if (found == NULL) found = log + strspn(log, " \n");
  while (found > log && found[-1] != '\n') found--;
  *length = (int)strcspn(found, "\n");
  return found;
}

/* For a process with unknown exit status: whether it printed an error. */
static bool has_error(const char* log) { return strstr(log, "error:") != NULL; }

/* Runs a command. OB_OK if it ended with status 0, or an unknown one. */
static ob_status run_step(const compiler* used, const words* command, const char* folder,
                          const char* what, command_result* result, compiler_error* error) {
  if (!run_command_line(command, folder, used->seconds, result)) return no_memory(error);
  char text[1024];
  write_command(command, text, sizeof text);
  ob_status status = OB_OK;
  if (result->error != 0) {
    status = report(error, OB_ERROR, "The %s could not be started (%s): `%s`; %s.", what,
                    strerror(result->error), text, used->advice);
  } else if (result->timed_out) {
    status =
        report(error, OB_ERROR, "The %s did not end within %g seconds and was ended: `%s`; %s.",
               what, used->seconds, text, used->advice);
  } else if (result->signal != 0) {
    status = report(error, OB_ERROR, "The %s was ended by signal %d (%s): `%s`; %s.\n%s", what,
                    result->signal, strsignal(result->signal), text, used->advice, result->output);
  } else if (result->exit_status > 0 || (result->exit_status < 0 && has_error(result->output))) {
    int length;
    const char* line = first_error(result->output, &length);
    /* The log tells whether the source is wrong or the command. */
    status = report(error, OB_BUILD_FAILED, "The %s failed with exit status %d: `%s`: %.*s\n%s",
                    what, result->exit_status, text, length, line, result->output);
  }
  return status;
}

/* ---- The compiler's version ---- */

/* The major version in "... clang version 22.1.8 ...", 0 if this is no clang. */
static int major_version(const char* line) {
  const char* found = strstr(line, "clang version ");
  return found == NULL ? 0 : atoi(found + strlen("clang version "));
}

ob_status probe_compiler(compiler* probed, compiler_error* error) {
  char* folder = create_folder(error);
  if (folder == NULL) return OB_ERROR;
  words command = {0};
  add_command(&command, probed->command);
  add_word(&command, "--version");
  command_result result = {0};
  ob_status status = run_step(probed, &command, folder, "compiler", &result, error);
  if (status == OB_OK) {
    snprintf(probed->version, sizeof probed->version, "%.*s", (int)strcspn(result.output, "\n"),
             result.output);
    int major = major_version(probed->version);
    if (major == 0) {
      status =
          report(error, OB_UNSUPPORTED, "`%s --version` answers \"%.80s\", which is no clang; %s.",
                 probed->command, probed->version, probed->advice);
    } else if (major < probed->oldest) {
      status = report(error, OB_UNSUPPORTED,
                      "`%s` is of version %d, and programs need clang %d or newer; %s.",
                      probed->command, major, probed->oldest, probed->advice);
    }
  } else if (status != OB_OUT_OF_MEMORY) {
    status = OB_UNSUPPORTED;
  }
  free(result.output);
  free_words(&command);
  remove_folder(folder);
  return status;
}

/* ---- Programs ---- */

/* The files of one program, in a temporary folder. */
typedef struct files {
  char* folder;
  path source, preprocessed, program, dialect, object, item_object, result;
} files;

static ob_status create_files(files* created, compiler_error* error) {
  char* folder = create_folder(error);
  if (folder == NULL) return OB_ERROR;
  *created = (files){folder,
                     path_in(folder, "source.cl"),
                     path_in(folder, "preprocessed.cl"),
                     path_in(folder, "program.cl"),
                     path_in(folder, "dialect.pch"),
                     path_in(folder, "program.o"),
                     path_in(folder, "item.o"),
                     path_in(folder, "program")};
  return OB_OK;
}

/* One run of the compiler. Paths and headers may be NULL: there is none. */
typedef struct step {
  const char* language;    /* its options */
  const char* options;     /* of the program */
  const char* precompiled; /* a precompiled header, read first */
  const char* header;      /* of the dialect, read next */
  const char* kind;        /* -E, -c or options for a precompiled header */
  const char *from, *to;
} step;

static const char LANGUAGE[] = "-x cl -cl-std=CL1.2 -cl-no-stdinc -Xclang -cl-ext=+all";

static ob_status run_compiler(const compiler* used, const char* folder, const step* run,
                              compiler_error* error) {
  words command = {0};
  add_command(&command, used->command);
  add_words(&command, used->flags);
  add_words(&command, "-w -fno-color-diagnostics");
  if (run->precompiled != NULL) {
    add_word(&command, "-include-pch");
    add_word(&command, run->precompiled);
  }
  if (run->header != NULL) {
    add_word(&command, "-include");
    add_word(&command, path_in(used->dialect, run->header).text);
  }
  add_words(&command, run->language);
  add_words(&command, run->options);
  add_words(&command, run->kind);
  add_word(&command, run->from);
  add_word(&command, "-o");
  add_word(&command, run->to);
  command_result result = {0};
  ob_status status = run_step(used, &command, folder, "compiler", &result, error);
  free(result.output);
  free_words(&command);
  return status;
}

/* ---- Cached results ---- */

/* Results of steps that are the same for all programs of a compiler: the object of the current
 * work-item, and the precompiled dialect, which takes ten times as long to compile as a program.
 * Each is made once in a process and cached in memory. */
typedef struct cached_result {
  struct cached_result* next;
  char* key;
  char* content;
  uint64_t bytes;
} cached_result;

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static cached_result* cached_results;

/* Takes ownership of `key`, also on failure. */
static ob_status cache_result(char* key, const char* path, compiler_error* error) {
  cached_result* cached = calloc(1, sizeof *cached);
  char* content = NULL;
  uint64_t bytes = 0;
  ob_status status = OB_OK;
  if (cached == NULL) {
    status = no_memory(error);
  } else if ((content = read_content(path, &bytes, error)) == NULL) {
    status = OB_ERROR;
  }
  if (status != OB_OK) {
    free(key);
    free(cached);
    return status;
  }
  *cached = (cached_result){cached_results, key, content, bytes};
  cached_results = cached;
  return OB_OK;
}

/* Writes the result of a step, from the cache or by running the step. */
static ob_status provide(const compiler* used, const char* folder, const step* run,
                         compiler_error* error) {
  char* key;
  if (asprintf(&key, "%s\n%s\n%s\n%s", used->command, used->flags, run->options, run->from) < 0) {
    return no_memory(error);
  }
  pthread_mutex_lock(&cache_lock);
  cached_result* cached = cached_results;
  while (cached != NULL && strcmp(cached->key, key) != 0) cached = cached->next;
  ob_status status = OB_OK;
  if (cached != NULL) {
    free(key);
    if (!write_content(run->to, cached->content, cached->bytes, error)) status = OB_ERROR;
  } else {
    status = run_compiler(used, folder, run, error);
    if (status == OB_OK) {
      status = cache_result(key, run->to, error);
    } else {
      free(key);
    }
  }
  pthread_mutex_unlock(&cache_lock);
  return status;
}

static ob_status provide_item_object(const compiler* used, const files* with,
                                     compiler_error* error) {
  path source = path_in(used->dialect, "current_item.c");
  step run = {.language = "-x c",
              .options = "",
              .kind = "-c",
              .from = source.text,
              .to = with->item_object.text};
  return provide(used, with->folder, &run, error);
}

/* The program's options for the language, which must be the same for the precompiled dialect. For
 * free; NULL if there is no memory. */
static char* language_options(const char* options) {
  char* chosen = calloc(1, strlen(options) + 2);
  for (const char* word = options; chosen != NULL && *word != '\0';) {
    size_t length = strcspn(word, " \t");
    if (strncmp(word, "-cl-", 4) == 0) {
      strncat(chosen, word, length);
      strcat(chosen, " ");
    }
    word += length;
    word += strspn(word, " \t");
  }
  return chosen;
}

static ob_status provide_dialect(const compiler* used, const files* with, const char* options,
                                 compiler_error* error) {
  char* chosen = language_options(options);
  if (chosen == NULL) return no_memory(error);
  path header = path_in(used->dialect, "opencl.h");
  step run = {.language = LANGUAGE,
              .options = chosen,
              .kind = "-c -Xclang -emit-pch",
              .from = header.text,
              .to = with->dialect.text};
  ob_status status = provide(used, with->folder, &run, error);
  free(chosen);
  return status;
}

/* ---- Steps ---- */

static ob_status link_objects(const compiler* used, const files* with, compiler_error* error) {
  words command = {0};
  add_words(&command, used->link);
  add_word(&command, "-o");
  add_word(&command, with->result.text);
  add_word(&command, with->object.text);
  add_word(&command, with->item_object.text);
  command_result result = {0};
  ob_status status = run_step(used, &command, with->folder, "linker", &result, error);
  free(result.output);
  free_words(&command);
  return status;
}

/* Writes the source and the entries of its kernels. */
static ob_status append_entries(const files* with, const char* source, compiler_error* error) {
  uint64_t bytes;
  char* text = read_content(with->preprocessed.text, &bytes, error);
  if (text == NULL) return OB_ERROR;
  char *entries = write_entries(text, error), *all = NULL;
  ob_status status = entries == NULL ? OB_BUILD_FAILED : OB_OK;
  int length = entries == NULL
                   ? 0
                   : asprintf(&all, "#line 1 \"%s\"\n%s%s", with->source.text, source, entries);
  if (length < 0) {
    all = NULL;
    status = no_memory(error);
  } else if (status == OB_OK && !write_content(with->program.text, all, (uint64_t)length, error)) {
    status = OB_ERROR;
  }
  free(all);
  free(entries);
  free(text);
  return status;
}

static ob_status read_result(const compiler* used, const files* with, compiled_program* compiled,
                             compiler_error* error) {
  compiled->data = read_content(with->result.text, &compiled->bytes, error);
  if (compiled->data != NULL && compiled->bytes > 64 && memcmp(compiled->data, "\177ELF", 4) == 0)
    return OB_OK;
  free_compiled(compiled);
  return report(error, OB_ERROR,
                "The compiler `%s` said that it had succeeded, and what it wrote is no ELF file; "
                "%s.",
                used->command, used->advice);
}

static ob_status compile_files(const compiler* used, const files* with, const char* source,
                               const char* options, compiled_program* compiled,
                               compiler_error* error) {
  if (!write_content(with->source.text, source, strlen(source), error)) return OB_ERROR;
  /* Only kernels are looked for, so the dialect's types suffice. */
  step preprocess = {.language = LANGUAGE,
                     .options = options,
                     .header = "language/types.h",
                     .kind = "-E",
                     .from = with->source.text,
                     .to = with->preprocessed.text};
  ob_status status = run_compiler(used, with->folder, &preprocess, error);
  if (status == OB_OK) status = append_entries(with, source, error);
  if (status == OB_OK) status = provide_dialect(used, with, options, error);
  if (status == OB_OK) {
    step compile = {.language = LANGUAGE,
                    .options = options,
                    .precompiled = with->dialect.text,
                    .header = "entry.h",
                    .kind = "-c",
                    .from = with->program.text,
                    .to = with->object.text};
    status = run_compiler(used, with->folder, &compile, error);
  }
  if (status == OB_OK) status = provide_item_object(used, with, error);
  if (status == OB_OK) status = link_objects(used, with, error);
  if (status == OB_OK) status = read_result(used, with, compiled, error);
  return status;
}

ob_status compile_program(const compiler* used, const char* source, const char* options,
                          compiled_program* compiled, compiler_error* error) {
  *compiled = (compiled_program){0};
  files with;
  ob_status status = create_files(&with, error);
  if (status != OB_OK) return status;
  status = compile_files(used, &with, source, options, compiled, error);
  remove_folder(with.folder);
  return status;
}

void free_compiled(compiled_program* compiled) {
  free(compiled->data);
  *compiled = (compiled_program){0};
}
