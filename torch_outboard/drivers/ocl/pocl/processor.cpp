// The processor that PoCL compiles for.
//
// PoCL gets the processor's name from its LLVM once, and later passes it to its compiler. LLVM 14,
// in the package pocl-binary-distribution 3.0, names a newer processor "generic", and its compiler
// for x86-64 refuses that name, so that no kernel builds. PoCL has no setting for the name. The
// device record holds a pointer to it, which can be replaced before the first build.
//
// LLVM also names processors like older ones of their family: Zen 4 and later are "znver3", which
// has no AVX-512. But PoCL links functions with AVX-512 where the processor has it, and code
// without AVX-512 cannot pass them vectors of 64 bytes. So these get another name, too.
//
// The record is private to PoCL. So it is changed only for the build whose layout is known, and
// only where kernels would not build or not link to PoCL's functions. The change can go when the
// package holds a PoCL that does not depend on the name (7.0 uses features instead).
#include <cstring>

#include "../ocl.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ocl {
namespace {

// The build is known by its file, whose name holds a hash of its content, and by its version.
constexpr const char* kFile = "/libpocl-21062cec.so";
constexpr const char* kVersion = "OpenCL 3.0 PoCL 3.0-rc2 ";
// Where the device record of that build holds a `const char*` to the name.
constexpr size_t kNameOffset = 640;

// A value of OUTBOARD_OCL_PROCESSOR: as if PoCL did not know the processor.
constexpr const char* kUnknownProcessor = "unknown";

// LLVM's name for an unknown processor.
constexpr const char* kNoName = "generic";
// LLVM's name for processors of an AMD family whose later members have AVX-512.
constexpr const char* kNameWithoutAvx512 = "znver3";

const char*& name_in_record(cl_device_id device) {
  return *reinterpret_cast<const char**>(reinterpret_cast<char*>(device) + kNameOffset);
}

#if defined(__x86_64__)

// Whether the processor has the scalar instructions that compilers use for haswell.
bool has_haswell_integers() {
  unsigned int a = 0;
  unsigned int b = 0;
  unsigned int c = 0;
  unsigned int d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_F16C) == 0 || (c & bit_MOVBE) == 0) {
    return false;
  }
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & bit_LZCNT) != 0;
}

// The first of the names, from many features to few, all of whose features the processor and the
// operating system have.
const char* nearest_known_processor() {
  __builtin_cpu_init();
  const bool haswell = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                       __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
                       has_haswell_integers();
  const bool skylake = haswell && has_avx512();
  const bool icelake =
      skylake && __builtin_cpu_supports("avx512ifma") && __builtin_cpu_supports("avx512vbmi") &&
      __builtin_cpu_supports("avx512vbmi2") && __builtin_cpu_supports("avx512vnni") &&
      __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vpopcntdq") &&
      __builtin_cpu_supports("gfni") && __builtin_cpu_supports("vpclmulqdq");
  if (icelake) return "icelake-server";
  if (skylake) return "skylake-avx512";
  if (haswell) return "haswell";
  if (__builtin_cpu_supports("avx")) return "sandybridge";
  if (__builtin_cpu_supports("sse4.2")) return "x86-64-v2";
  return "x86-64";
}

#else

// The known build exists for x86-64 alone.
const char* nearest_known_processor() { return kNoName; }

#endif

}  // namespace

bool is_known_pocl(const Platform& platform) {
  const std::string& file = platform.library;
  const size_t length = std::strlen(kFile);
  return file.size() >= length && file.compare(file.size() - length, length, kFile) == 0 &&
         platform.version.rfind(kVersion, 0) == 0;
}

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

Processor choose_processor(const Platform& platform, cl_device_id device,
                           const Settings& settings) {
  if (!is_known_pocl(platform)) return {};
  const char*& name = name_in_record(device);
  const char* reason = "";
  if (settings.processor.empty() || settings.processor == kUnknownProcessor) {
    if (std::strcmp(name, kNoName) == 0 || settings.processor == kUnknownProcessor) {
      name = nearest_known_processor();
      reason = ", since its compiler does not know this processor";
    } else if (std::strcmp(name, kNameWithoutAvx512) == 0 && has_avx512()) {
      name = nearest_known_processor();
      reason = ", since its compiler does not know that this processor has AVX-512";
    }
  } else {
    // The record keeps the pointer; devices are found once.
    static const std::string asked = settings.processor;
    name = asked.c_str();
    reason = ", as OUTBOARD_OCL_PROCESSOR says";
  }
  return {name, reason};
}

}  // namespace ocl
