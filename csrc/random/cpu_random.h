// Shared by random operators on the CPU: the loop over chunks of draws, and tensors as host memory.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>

#include "cpu_kernels/call/cpu_call.h"
#include "random/chunk.h"
#include "random/element_view.h"

namespace outboard::random {

// `tensor` with host-accessible memory during `call`. With shared memory it is the tensor itself:
// these kernels use only sizes, strides and addresses.
inline at::Tensor on_host(CpuCall& call, const at::Tensor& tensor, Access access) {
  if (call.placement() != Placement::kHost) return call.map(tensor, access);
  // A copy-on-write storage is materialized here; addresses are taken later.
  if (access == Access::kWrite) tensor.mutable_data_ptr();
  return tensor;
}

// Calls body(first, count, words, rounded) for runs of elements in parallel. words[0 .. rounded)
// are the draws of elements [first, first + count), kWords words each (distributions.h); `rounded`:
// a multiple of kWordGroup.
template <int64_t kWords, class Body>
void for_each_chunk(const PhiloxState& state, int64_t elements, const Body& body) {
  constexpr int64_t kElements = kChunkWords / kWords;
  constexpr int64_t kChunksPerTask = 16;
  const int64_t chunks = (elements + kElements - 1) / kElements;
  at::parallel_for(0, chunks, kChunksPerTask, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t words[kChunkWords];
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      const int64_t first = chunk * kElements;
      const int64_t count = std::min(kElements, elements - first);
      const int64_t rounded = round_to_group(count * kWords);
      chunk_words(state, chunk, rounded, words);
      body(first, count, words, rounded);
    }
  });
}

// The 64-bit draw of element i of a chunk.
inline uint64_t draw_64(const uint32_t* words, int64_t i) {
  return words[2 * i] | (uint64_t{words[2 * i + 1]} << 32);
}

// Fills `self` (a host tensor) with Values computed from draws of kWords words: compute(words,
// rounded, count, values) may write up to kChunkWords / kWords values.
template <int64_t kWords, class Value, class Compute>
void fill(const at::Tensor& self, const PhiloxState& state, const Compute& compute) {
  const ElementView view(self);
  for_each_chunk<kWords>(state, view.size(),
                         [&](int64_t first, int64_t count, const uint32_t* words, int64_t rounded) {
                           constexpr int64_t kElements = kChunkWords / kWords;
                           alignas(64) Value buffer[kElements];
                           Value* direct = count == kElements ? view.direct<Value>(first) : nullptr;
                           compute(words, rounded, count, direct != nullptr ? direct : buffer);
                           if (direct == nullptr) view.store(first, count, buffer);
                         });
}

}  // namespace outboard::random
