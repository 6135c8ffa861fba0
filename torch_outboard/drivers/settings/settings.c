#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char* text_of(const char* variable) {
  const char* text = getenv(variable);
  return text == NULL || *text == '\0' ? NULL : text;
}

bool read_number(const char* variable, uint64_t smallest, uint64_t largest, uint64_t* value,
                 char* problem, size_t room) {
  const char* text = text_of(variable);
  if (text == NULL) return true;
  errno = 0;
  unsigned long long number = strtoull(text, NULL, 10);
  if (strspn(text, "0123456789") == strlen(text) && errno == 0 && number >= smallest &&
      number <= largest) {
    *value = number;
    return true;
  }
  snprintf(problem, room, "%s=%.100s is not a whole number from %llu to %llu.", variable, text,
           (unsigned long long)smallest, (unsigned long long)largest);
  return false;
}

bool read_choice(const char* variable, const char* const* choices, const char** value,
                 char* problem, size_t room) {
  const char* text = text_of(variable);
  if (text == NULL) return true;
  int used = snprintf(problem, room, "%s=%.100s is none of ", variable, text);
  for (size_t i = 0; choices[i] != NULL; i++) {
    if (strcmp(text, choices[i]) == 0) {
      *value = choices[i];
      return true;
    }
    if (used >= 0 && (size_t)used < room) {
      used += snprintf(problem + used, room - (size_t)used, "%s%s", i == 0 ? "" : ", ", choices[i]);
    }
  }
  return false;
}
