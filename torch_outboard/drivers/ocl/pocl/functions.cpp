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
#line 1
)";
// Elsewhere. Only names of processors of x86 have AVX2.
constexpr const char* kBefore = R"(
#if defined(__AVX2__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("arch=haswell"))), apply_to = function)
#endif
#line 1
)";
constexpr const char* kAfter = R"(
#ifdef OB_PUSHED
#pragma clang attribute pop
#endif
)";

}  // namespace

Surroundings surroundings_of_sources(const Platform& platform) {
  if (platform.name != kPocl) return {};
  return {has_avx512() ? kBeforeWithAvx512 : kBefore, kAfter};
}

}  // namespace ocl
