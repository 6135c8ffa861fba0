// Text from drivers: Python takes UTF-8 only, and drivers pass on what hardware and compilers say.
#pragma once

#include <cstddef>
#include <string_view>

namespace outboard {

// The number of bytes of the character that starts at `text`; 0 if none does.
size_t utf8_character(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

// Puts '?' in the place of each byte that is no part of a character. Returns whether there were
// any.
bool replace_invalid_utf8(char* text, size_t bytes) noexcept;

}  // namespace outboard
