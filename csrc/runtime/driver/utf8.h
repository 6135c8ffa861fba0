// Strings from drivers: Python takes valid UTF-8 only, and hardware and compilers send other bytes.
#pragma once

#include <cstddef>

namespace outboard {

// Replaces each byte that is not part of a character by '?'. Returns whether there was one.
bool replace_invalid_utf8(char* text, size_t bytes) noexcept;

}  // namespace outboard
