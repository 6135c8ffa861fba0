// How PoCL's own functions come to be inlined into kernels.
//
// PoCL brings the functions of OpenCL C compiled for several processors, and takes those that the
// machine's processor can run. LLVM inlines none of them, not even vload and min, into code for a
// processor that lacks a feature which they were compiled with: kernels then take three times as
// long. The compiler's name for a processor may lack one because the compiler is older than the
// processor and does not know that it has AVX-512. Or the feature is one that no code depends on:
// Cannon Lake, Rocket Lake and Ice Lake's clients have no clwb, unlike what the functions for
// AVX-512 were compiled for. Zen and Alder Lake are not said to move strings fast (ermsb), and the
// first two of Zen have no invpcid, unlike what the functions for AVX2 were compiled for. Virtual
// machines take such names, too. So the compiler is told what it shall take each function of a
// source to be for.
//
// In the first case its own headers are not told, so that calls with vectors of 64 bytes do not
// compile: processor.cpp sees to it that the packaged PoCL does not come there.
#include <cstring>

#include "../ocl.h"

namespace ocl {
namespace {

// Where PoCL takes its functions for AVX-512.
constexpr const char* kBeforeWithAvx512 = R"(
#if !defined(__AVX512F__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("arch=skylake-avx512"))), apply_to = function)
#elif !defined(__CLWB__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("clwb"))), apply_to = function)
#endif
)";
// Elsewhere. Only names of processors of x86 have AVX2.
constexpr const char* kBefore = R"(
#if defined(__AVX2__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("arch=haswell"))), apply_to = function)
#endif
)";
// Loads and stores of vectors, which are one instruction each. PoCL's own are made of those of two
// elements, and LLVM computes with pairs then. Expanded where a source has any.
constexpr const char* kVectors = R"(
#define OB_INLINE static inline __attribute__((overloadable, always_inline))
#define OB_LOAD(t, n, space)                                      \
  OB_INLINE t##n ob_vload##n(size_t i, const space t *p) {        \
    return *(const space ob_unaligned_##t##n *)(p + i * n);       \
  }
#define OB_STORE(t, n, space)                                     \
  OB_INLINE void ob_vstore##n(t##n v, size_t i, space t *p) {     \
    *(space ob_unaligned_##t##n *)(p + i * n) = v;                \
  }
#define OB_VECTOR(t, n)                                                  \
  typedef t##n ob_unaligned_##t##n __attribute__((aligned(sizeof(t))));  \
  OB_LOAD(t, n, __global) OB_LOAD(t, n, __local)                         \
  OB_LOAD(t, n, __private) OB_LOAD(t, n, __constant)                     \
  OB_STORE(t, n, __global) OB_STORE(t, n, __local) OB_STORE(t, n, __private)
#define OB_VECTORS(t) OB_VECTOR(t, 2) OB_VECTOR(t, 4) OB_VECTOR(t, 8) OB_VECTOR(t, 16)
OB_VECTORS(char) OB_VECTORS(uchar) OB_VECTORS(short) OB_VECTORS(ushort)
OB_VECTORS(int) OB_VECTORS(uint) OB_VECTORS(long) OB_VECTORS(ulong) OB_VECTORS(float)
#ifdef cl_khr_fp64
OB_VECTORS(double)
#endif
#define vload2 ob_vload2
#define vload4 ob_vload4
#define vload8 ob_vload8
#define vload16 ob_vload16
#define vstore2 ob_vstore2
#define vstore4 ob_vstore4
#define vstore8 ob_vstore8
#define vstore16 ob_vstore16
)";
// The lines of a source are counted from here.
constexpr const char* kLines = "\n#line 1\n";
constexpr const char* kAfter = R"(
#ifdef OB_PUSHED
#pragma clang attribute pop
#endif
)";

}  // namespace

std::string surroundings_of_sources(const Platform& platform) {
  if (platform.name != kPocl) return "";
  return std::string(has_avx512() ? kBeforeWithAvx512 : kBefore) + kVectors + kAfter;
}

std::string surrounded(const Device& device, const char* source) {
  if (device.platform->name != kPocl) return source;
  const bool vectors =
      std::strstr(source, "vload") != nullptr || std::strstr(source, "vstore") != nullptr;
  return std::string(has_avx512() ? kBeforeWithAvx512 : kBefore) + (vectors ? kVectors : "") +
         kLines + source + kAfter;
}

}  // namespace ocl
