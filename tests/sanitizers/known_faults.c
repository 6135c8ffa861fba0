// Faults that the sanitizers must find; otherwise a run without findings says nothing.
#include <limits.h>
#include <stdlib.h>

int overflow(int value) { return value + INT_MAX; }

int read_beyond_the_end(int index) {
  char* memory = calloc(8, 1);
  if (memory == NULL) return 0;
  const int found = memory[index];
  free(memory);
  return found;
}
