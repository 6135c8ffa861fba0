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
#include <algorithm>
#include <iterator>

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
// elements, and LLVM computes with pairs then. Where a source has any, they are there for the types
// that it names: for all they take a third of a small source's time.
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
)";
// Behind them and the types.
constexpr const char* kVectorNames = R"(
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

constexpr const char* kTypes[] = {"char", "uchar", "short", "ushort", "int",
                                  "uint", "long",  "ulong", "float",  "double"};
// Typedefs of long or ulong.
constexpr const char* kLongTypes[] = {"size_t", "ptrdiff_t", "intptr_t", "uintptr_t"};

// Whether an identifier of a source begins with a name, as float8 with float.
bool names(const std::string& text, const std::string& name) {
  for (size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    if (at == 0 || !is_name_character(text[at - 1])) return true;
  }
  return false;
}

// The definitions of vload and vstore for a source; "" if it uses neither.
std::string vectors_for(const std::string& text) {
  if (text.find("vload") == std::string::npos && text.find("vstore") == std::string::npos) {
    return "";
  }
  const bool longs = std::any_of(std::begin(kLongTypes), std::end(kLongTypes),
                                 [&](const char* type) { return names(text, type); });
  std::string all = kVectors;
  for (const std::string type : kTypes) {
    if (!names(text, type) && !(longs && type.ends_with("long"))) continue;
    if (type == "double") all += "#ifdef cl_khr_fp64\n";
    all += "OB_VECTORS(" + type + ")\n";
    if (type == "double") all += "#endif\n";
  }
  return all + kVectorNames;
}

}  // namespace

std::string surroundings_of_sources(const Platform& platform) {
  if (platform.name != kPocl) return "";
  return std::string(has_avx512() ? kBeforeWithAvx512 : kBefore) + kVectors + kVectorNames + kAfter;
}

std::string surrounded(const Device& device, const std::string& source,
                       const std::string& options) {
  if (device.platform->name != kPocl) return source;
  return (has_avx512() ? kBeforeWithAvx512 : kBefore) + vectors_for(source + options) + kLines +
         source + kAfter;
}

}  // namespace ocl
