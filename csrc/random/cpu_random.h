// Random operators on the CPU: the loop over chunks of draws, the values of a chunk, and tensors as
// host memory.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "cpu_kernels/call/cpu_call.h"
#include "runtime/generator.h"
#include "tensors/host_view.h"

namespace outboard::random {

// ---- Values of one chunk of draws: vectorized loops on arrays that fit the L1 cache

// Words per chunk. Chunks start at multiples of it, so the low word of a block's number never wraps
// inside a chunk.
constexpr int64_t kChunkWords = 1024;

// Granularity of the functions below: numbers of words from the start of a chunk are rounded up.
constexpr int64_t kWordGroup = 64;
constexpr int64_t round_to_group(int64_t words) {
  return (words + kWordGroup - 1) / kWordGroup * kWordGroup;
}

// words[0 .. count): the words of chunk `chunk`. `count`: a multiple of kWordGroup.
void chunk_words(const PhiloxState& state, int64_t chunk, int64_t count, uint32_t* words);

// Values of 32-bit draws. `count`: a multiple of kWordGroup.
// min(unit * scale + from, largest)
void uniform_values(const uint32_t* words, int64_t count, float scale, float from, float largest,
                    float* values);
// normal * deviation + mean
void normal_values(const uint32_t* words, int64_t count, float deviation, float mean,
                   float* values);
// max(exponential * scale, smallest)
void exponential_values(const uint32_t* words, int64_t count, float scale, float smallest,
                        float* values);
// tangent * sigma + median
void cauchy_values(const uint32_t* words, int64_t count, float sigma, float median, float* values);
// ceil(exponential * scale), between 1 and `largest`
void geometric_values(const uint32_t* words, int64_t count, float scale, float largest,
                      float* values);
// word < threshold; 1 or 0
void below_values(const uint32_t* words, int64_t count, uint64_t threshold, uint8_t* values);

// ---- Rejection sampling of one chunk of elements. Compiles
// torch_outboard/kernels/random_numbers/rejection.cl as C++; that file documents the draws of an
// element

// Generator offsets that an operator reserves.
constexpr uint64_t kRejectionBlocks = 64;

constexpr int64_t kRejectionElements = kChunkWords / 4;

// The elements [first, first + count) of chunk first / kRejectionElements, with a block of words
// each; words[4 * i .. 4 * i + 4) is the first block of the i-th element.
struct RejectionRun {
  const PhiloxState& state;
  int64_t first;
  int64_t count;
  const uint32_t* words;
};

// `values` may alias the parameters.

// False if a rate is below 0; values are then undefined.
bool poisson_values(const RejectionRun& run, const double* rates, double* values);
void binomial_values(const RejectionRun& run, const double* counts, const double* probabilities,
                     double* values);
// At least `smallest`, also if alpha is not positive.
void gamma_values(const RejectionRun& run, const double* alphas, double smallest, double* values);
// Gamma variables as factors[i] * exp(exponents[i]).
void gamma_parts(const RejectionRun& run, const double* alphas, double* factors, double* exponents);
// Shares of `rows` rows of `length` gamma variables in the sums of their rows, between `smallest`
// and `largest`, written over the factors.
void dirichlet_values(int64_t rows, int64_t length, double smallest, double largest,
                      const double* exponents, double* factors);

// ---- Tensors and chunks

using OptionalGenerator = std::optional<at::Generator>;

// `tensor` with host-accessible memory during `call`. With shared memory it is the tensor itself:
// these kernels use only sizes, strides and addresses.
inline at::Tensor on_host(CpuCall& call, const at::Tensor& tensor, Access access) {
  if (call.placement() != Placement::kHost) return call.map(tensor, access);
  // A copy-on-write storage is materialized here; addresses are taken later.
  if (access == Access::kWrite) tensor.mutable_data_ptr();
  return tensor;
}

// A host tensor, contiguous and in another dtype.
inline at::Tensor packed(const at::Tensor& host, at::ScalarType dtype) {
  return host_tensor(host, Access::kRead).to(dtype).contiguous();
}

// Calls write(values) to write all elements of the host tensor `host`, in row-major order, to an
// array of Values: the tensor's memory, or another one that is then converted. Integers wrap.
template <class Value, class Write>
void write_values(const at::Tensor& host, const Write& write) {
  constexpr at::ScalarType kType = c10::CppTypeToScalarType<Value>::value;
  // Bytes that are 0 or 1 are bools.
  const bool same =
      host.scalar_type() == kType || (kType == at::kByte && host.scalar_type() == at::kBool);
  if (same && host.is_contiguous()) {
    write(static_cast<Value*>(host.mutable_data_ptr()));
    return;
  }
  const at::Tensor values = at::empty(host.sizes(), kType);
  write(values.mutable_data_ptr<Value>());
  host_tensor(host).copy_(values);
}

// Raises the error of PyTorch's CPU kernel `name` for dtypes other than float32, float64 and, if
// `halves`, float16 and bfloat16.
inline void check_floating(const at::Tensor& self, const char* name, bool halves = true) {
  const at::ScalarType type = self.scalar_type();
  TORCH_CHECK_NOT_IMPLEMENTED(type == at::kFloat || type == at::kDouble ||
                                  (halves && (type == at::kHalf || type == at::kBFloat16)),
                              '"', name, "\" not implemented for '", toString(type), "'");
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

// Fills `host` with Values computed from draws of kWords words: compute(words, rounded, count,
// values) may write up to kChunkWords / kWords values.
template <int64_t kWords, class Value, class Compute>
void fill(const at::Tensor& host, const PhiloxState& state, const Compute& compute) {
  constexpr int64_t kElements = kChunkWords / kWords;
  write_values<Value>(host, [&](Value* all) {
    for_each_chunk<kWords>(
        state, host.numel(),
        [&](int64_t first, int64_t count, const uint32_t* words, int64_t rounded) {
          if (count == kElements) return compute(words, rounded, count, all + first);
          alignas(64) Value values[kElements];
          compute(words, rounded, count, values);
          std::copy_n(values, count, all + first);
        });
  });
}

// Fills a device tensor by `write`, which gets its host tensor and the state of one operator.
template <class Write>
void draw_into(const at::Tensor& self, const std::optional<at::Generator>& generator,
               const Write& write) {
  const PhiloxState state = reserve_philox(generator, self.device().index(), 1);
  CpuCall call(self.device().index());
  write(on_host(call, self, Access::kWrite), state);
  call.finish();
}

}  // namespace outboard::random
