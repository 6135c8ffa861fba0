/* Finds the kernels of a preprocessed source, which has no comments and macros left. */
#define _GNU_SOURCE
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler.h"

/* Characters [first, last) of the source. */
typedef struct range {
  const char *first, *last;
} range;

static bool is_name_character(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The end of a string or character constant that begins at `c`. */
static const char* skip_constant(const char* c) {
  char quote = *c++;
  while (*c != '\0' && *c != quote) c += c[0] == '\\' && c[1] != '\0' ? 2 : 1;
  return *c == '\0' ? c : c + 1;
}

static const char* skip_line(const char* c) {
  while (*c != '\0' && *c != '\n') c++;
  return c;
}

/* The next token at or behind `c`, which is at the start of a line or within one: a name or number,
 * a constant, or one character. Blanks and lines that begin with # are skipped. Empty at the end.
 */
static range next_token(const char* c, const char* text) {
  for (;; c++) {
    if (*c == '#' && (c == text || c[-1] == '\n')) {
      c = skip_line(c);
    }
    if (*c == '\0') return (range){c, c};
    if (!isspace((unsigned char)*c)) break;
  }
  const char* first = c;
  if (is_name_character(*c)) {
    while (is_name_character(*c)) c++;
  } else if (*c == '"' || *c == '\'') {
    c = skip_constant(c);
  } else {
    c++;
  }
  return (range){first, c};
}

static bool is(range token, const char* word) {
  size_t length = (size_t)(token.last - token.first);
  return strlen(word) == length && strncmp(token.first, word, length) == 0;
}

static bool is_name(range token) {
  return token.first < token.last && is_name_character(*token.first) &&
         !isdigit((unsigned char)*token.first);
}

/* Behind the parenthesis that belongs to the one at `c`. */
static const char* skip_parentheses(const char* c, const char* text) {
  int depth = 0;
  for (range token = next_token(c, text); token.first < token.last;
       token = next_token(token.last, text)) {
    if (is(token, "(")) depth++;
    if (is(token, ")") && --depth == 0) return token.last;
    c = token.last;
  }
  return c;
}

/* A parameter's type: all its tokens but attributes and the name. Pointers count as addresses,
 * those to local memory, too. */
typedef struct parameter {
  range tokens[32];
  int count;
  ob_argument_kind kind;
} parameter;

/* Reads the parameter that begins at `c`, and returns the comma or parenthesis behind it, or NULL
 * if it is none. */
static const char* read_parameter(const char* c, const char* text, parameter* read) {
  enum { MOST = sizeof read->tokens / sizeof *read->tokens };
  *read = (parameter){.kind = OB_ARGUMENT_VALUE};
  range token = next_token(c, text);
  while (!is(token, ",") && !is(token, ")")) {
    if (token.first == token.last || read->count == MOST || is(token, "(") || is(token, "[")) {
      return NULL; /* pointers to functions and arrays are no parameters of kernels */
    }
    if (is(token, "__attribute__")) {
      token = next_token(skip_parentheses(token.last, text), text);
      continue;
    }
    if (is(token, "*")) read->kind = OB_ARGUMENT_ADDRESS;
    read->tokens[read->count++] = token;
    token = next_token(token.last, text);
  }
  /* The last token is the name. */
  if (read->count > 0 && !is_name(read->tokens[--read->count])) return NULL;
  return token.first;
}

static void write_type(FILE* out, const parameter* written) {
  for (int i = 0; i < written->count; i++) {
    range token = written->tokens[i];
    fprintf(out, "%s%.*s", i == 0 ? "" : " ", (int)(token.last - token.first), token.first);
  }
}

/* Writes the entry of the kernel `name` whose parameters stand behind the parenthesis at `c`. False
 * if they cannot be read. */
static bool write_entry(FILE* out, range name, const char* c, const char* text) {
  enum { MOST = 256 };
  parameter parameters[MOST];
  int count = 0;
  range first = next_token(c + 1, text);
  bool none = is(first, ")") || (is(first, "void") && is(next_token(first.last, text), ")"));
  while (!none && *c != ')') {
    if (count == MOST) return false;
    c = read_parameter(c + 1, text, &parameters[count++]);
    if (c == NULL || parameters[count - 1].count == 0) return false;
  }
  int length = (int)(name.last - name.first);
  fprintf(out,
          "__attribute__((visibility(\"default\"))) __constant const uint ob_parameters_%.*s[]",
          length, name.first);
  fprintf(out, " = {%d", count);
  for (int i = 0; i < count; i++) {
    fprintf(out, ", %d, sizeof(", parameters[i].kind);
    write_type(out, &parameters[i]);
    fprintf(out, ")");
  }
  fprintf(out, "};\nOB_ENTRY_BEGIN(%.*s)\n%.*s(", length, name.first, length, name.first);
  for (int i = 0; i < count; i++) {
    fprintf(out, "%sOB_ARGUMENT(%d, ", i == 0 ? "" : ", ", i);
    write_type(out, &parameters[i]);
    fprintf(out, ")");
  }
  fprintf(out, ");\nOB_ENTRY_END\n");
  return true;
}

/* Reads on behind __kernel to the name, the token before the parameters, and returns where these
 * begin. NULL if there are none. */
static const char* read_name(const char* c, const char* text, range* name) {
  for (range token = next_token(c, text); token.first < token.last;
       token = next_token(token.last, text)) {
    if (is(token, "__attribute__")) {
      token.last = skip_parentheses(token.last, text);
    } else if (is(token, "(")) {
      return is_name(*name) ? token.first : NULL;
    } else {
      *name = token;
    }
  }
  return NULL;
}

/* Whether a body follows the parameters, and no semicolon. */
static bool is_definition(const char* c, const char* text) {
  range token = next_token(c, text);
  while (is(token, "__attribute__")) {
    token = next_token(skip_parentheses(token.last, text), text);
  }
  return is(token, "{");
}

char* write_entries(const char* text, compiler_error* error) {
  char* entries = NULL;
  size_t bytes = 0;
  FILE* out = open_memstream(&entries, &bytes);
  if (out == NULL) {
    report(error, OB_OUT_OF_MEMORY, "The host has no memory to compile a program.");
    return NULL;
  }
  fprintf(out, "\n#line 1 \"entries\"\n");
  bool readable = true;
  int found = 0;
  range name = {text, text};
  for (range token = next_token(text, text); readable && token.first < token.last;
       token = next_token(token.last, text)) {
    if (!is(token, "__kernel") && !is(token, "kernel")) continue;
    const char* open = read_name(token.last, text, &name);
    readable = open != NULL;
    if (!readable) break;
    token.last = skip_parentheses(open, text);
    if (!is_definition(token.last, text)) continue;
    readable = write_entry(out, name, open, text);
    found++;
  }
  bool written = fclose(out) == 0;
  if (written && readable && found > 0) return entries;
  free(entries);
  if (!written) {
    report(error, OB_OUT_OF_MEMORY, "The host has no memory to compile a program.");
  } else if (!readable) {
    report(error, OB_BUILD_FAILED, "The parameters of the kernel %.*s cannot be read.",
           (int)(name.last - name.first), name.first);
  } else {
    report(error, OB_BUILD_FAILED, "The source defines no kernel.");
  }
  return NULL;
}
