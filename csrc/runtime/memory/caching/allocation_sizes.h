// How sizes are rounded and when blocks are split, as PyTorch's allocator settings say.
#pragma once

#include <cstddef>

#include "runtime/memory/caching/block_pool.h"

namespace outboard {

inline size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}
// What a tensor that asks for `bytes` gets.
size_t block_size(size_t bytes);
// Whether such a block comes from a segment of small blocks.
bool is_small(size_t block_bytes);
// What the driver is asked for when no cached block fits; `max_allocation` is the device's limit.
size_t segment_size(size_t block_bytes, size_t max_allocation);
// Whether `block` may serve an allocation of `bytes` at all.
bool may_use(const Block& block, size_t bytes, bool small);
// Whether what is left of `block` becomes a block of its own.
bool should_split(const Block& block, size_t bytes, bool small);

}  // namespace outboard
