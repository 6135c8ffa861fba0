/* Environment variables, and files in Python packages, for drivers in C++. */
#ifndef OUTBOARD_DRIVERS_COMMON_SETTINGS_H
#define OUTBOARD_DRIVERS_COMMON_SETTINGS_H

#include <cstdint>
#include <string>
#include <vector>

namespace drivers {

// The value of an environment variable, "" if it is not set.
std::string text_setting(const char* variable);
// A whole number, `otherwise` if it is not set. Throws OB_INVALID_ARGUMENT if it is none, or not
// between the two.
uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise);
// One of some words, "" if it is not set. Throws likewise.
std::string choice_setting(const char* variable, std::vector<const char*> choices);
// Words between commas, none if it is not set. Throws if it has commas and no words.
std::vector<std::string> list_setting(const char* variable);
// The path of a file in a folder in which Python packages lie, such as "ziglang/zig"; "" if it is
// in none. Folders are those that this library and others of the process come from.
std::string file_of_package(const std::string& name);

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_SETTINGS_H
