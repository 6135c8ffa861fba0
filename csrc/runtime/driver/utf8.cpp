#include "runtime/driver/utf8.h"

namespace outboard {
namespace {

// The number of bytes of the character at `text`; 0 if there is none.
size_t character_bytes(const char* text, size_t room) noexcept {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || room < length) return 0;
  // Excludes overlong forms, surrogates and code points past the last.
  const unsigned char least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t i = 2; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

bool replace_invalid_utf8(char* text, size_t bytes) noexcept {
  bool any = false;
  for (size_t i = 0; i < bytes;) {
    const size_t length = character_bytes(text + i, bytes - i);
    if (length == 0) {
      text[i] = '?';
      any = true;
    }
    i += length == 0 ? 1 : length;
  }
  return any;
}

}  // namespace outboard
