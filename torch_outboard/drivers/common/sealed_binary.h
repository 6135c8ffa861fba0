// Binaries of programs behind a header with size and hash, so that damage shows: drivers crash on
// it.
#ifndef OUTBOARD_DRIVERS_COMMON_SEALED_BINARY_H
#define OUTBOARD_DRIVERS_COMMON_SEALED_BINARY_H

#include <common/failures.h>
#include <common/system.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace drivers {

struct Seal {
  char magic[8] = {'o', 'b', '_', 'c', 'o', 'd', 'e', '2'};
  uint64_t bytes = 0;
  uint64_t hash = 0;
};

inline Seal seal_of(std::string_view binary) {
  return {.bytes = binary.size(), .hash = hash_bytes(HASH_START, binary.data(), binary.size())};
}

inline std::string sealed(std::string_view binary) {
  const Seal seal = seal_of(binary);
  return std::string(reinterpret_cast<const char*>(&seal), sizeof seal).append(binary);
}

// The binary in a sealed one. Throws OB_INVALID_ARGUMENT if it is damaged.
inline std::string_view unsealed(const void* data, uint64_t bytes) {
  if (data != nullptr && bytes > sizeof(Seal)) {
    const char* binary = static_cast<const char*>(data) + sizeof(Seal);
    const std::string_view content(binary, bytes - sizeof(Seal));
    const Seal seal = seal_of(content);
    if (std::memcmp(data, &seal, sizeof seal) == 0) return content;
  }
  fail(OB_INVALID_ARGUMENT,
       "The %llu bytes are not a binary of this driver, or are damaged; build from source again.",
       static_cast<unsigned long long>(bytes));
}

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_SEALED_BINARY_H
