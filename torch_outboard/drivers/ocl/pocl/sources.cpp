// Lines that PoCL needs around a source: attributes and functions of vectors, and declarations of
// the functions that the source names.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "../ocl.h"

namespace ocl {
namespace {

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// ---- Attributes and vectors
//
// PoCL has OpenCL C's functions compiled for several processors, and links those that the machine's
// processor can run. LLVM inlines none of them, not even vload and min, into code for a processor
// without a feature that they were compiled with: kernels then take three times as long. The
// compiler's name of a processor may lack a feature because the compiler is older and does not know
// its AVX-512. Or the feature is irrelevant: Cannon Lake, Rocket Lake and Ice Lake's clients have
// no clwb, which the functions for AVX-512 were compiled with. The names of Zen and Alder Lake
// imply no ermsb, and those of the first two generations of Zen no invpcid, which the functions for
// AVX2 were compiled with. Virtual machines have such names, too. So an attribute sets the target
// of each function of a source.
//
// In the first case the attribute does not reach PoCL's headers, so calls with vectors of 64 bytes
// do not compile: processor.cpp avoids this case for the packaged PoCL.

// For PoCL's functions with AVX-512.
constexpr const char* kBeforeWithAvx512 = R"(
#if !defined(__AVX512F__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("arch=skylake-avx512"))), apply_to = function)
#elif !defined(__CLWB__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("clwb"))), apply_to = function)
#endif
)";
// For other functions. Only x86 processors have AVX2.
constexpr const char* kBefore = R"(
#if defined(__AVX2__)
#define OB_PUSHED
#pragma clang attribute push(__attribute__((target("arch=haswell"))), apply_to = function)
#endif
)";
// Loads and stores of vectors, each one instruction. PoCL's consist of those of two elements, with
// which LLVM computes in pairs. Only for the types that a source names: for all types they would
// take a third of a small source's build.
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
// Behind the types.
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
// Restarts the line numbers for the source.
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

// ---- Declarations
//
// PoCL's compiler reads opencl-c.h before each source. Its 14,500 declarations take two thirds of a
// build. With the header's include guard defined the compiler skips it, and the source begins with
// the declarations of the names in it, with all overloads of a name, so that overload resolution is
// unchanged. A macro may paste a name together, so a name before `##` selects all names that begin
// with it. A missed name is a compiler error, after which the caller builds with the whole header.

namespace {

// Relative to the library of the known build; the second header has PoCL's additions.
constexpr const char* kFolder = "/../../pocl_binary_distribution/.libs/share/pocl/include/";
constexpr const char* kHeaders[] = {"opencl-c.h", "_clang_opencl.h"};
constexpr const char* kGuard = "#ifndef _OPENCL_H_";

// A directive, whose name is empty, or the declaration of a function.
struct Declaration {
  std::string name;
  std::string text;
};

// The name before the first parenthesis that belongs to no attribute.
std::string name_in(const std::string& text) {
  constexpr std::string_view kAttribute = "__attribute__";
  size_t parenthesis = text.find('(');
  while (parenthesis != std::string::npos) {
    size_t end = parenthesis;
    while (end > 0 && text[end - 1] == ' ') --end;
    size_t begin = end;
    while (begin > 0 && is_name_character(text[begin - 1])) --begin;
    const std::string name = text.substr(begin, end - begin);
    if (name != kAttribute) return name;
    parenthesis = text.find('(', text.find("))", parenthesis));
  }
  return "";
}

// A line, with the lines that continue it after a backslash.
bool read_line(std::istream& stream, std::string& line) {
  if (!std::getline(stream, line)) return false;
  for (std::string rest; line.ends_with('\\') && std::getline(stream, rest);) {
    line.pop_back();
    line += rest;
  }
  return true;
}

// Adds the lines of a header behind its guard and the following line, without its includes, which
// PoCL reads anyway. False if the file has another structure.
bool add_header(const std::string& path, std::vector<Declaration>& declarations) {
  std::ifstream file(path);
  std::vector<Declaration> found;
  std::string pending;
  bool in_comment = false;
  for (std::string line; read_line(file, line);) {
    if (in_comment) {
      in_comment = line.find("*/") == std::string::npos;
      continue;
    }
    line.resize(std::min(line.size(), line.find("//")));
    if (const size_t comment = line.find("/*"); comment != std::string::npos) {
      in_comment = line.find("*/", comment) == std::string::npos;
      line.resize(comment);
    }
    while (line.ends_with(' ')) line.pop_back();
    if (line.empty()) continue;
    pending += line;
    const bool directive = pending.front() == '#';
    if (!directive && !pending.ends_with(';')) {
      pending += ' ';
      continue;
    }
    found.push_back({directive ? "" : name_in(pending), pending});
    pending.clear();
  }
  if (found.size() < 3 || found.front().text != kGuard || !pending.empty()) return false;
  std::copy_if(found.begin() + 2, found.end() - 1, std::back_inserter(declarations),
               [](const Declaration& line) { return !line.text.starts_with("#include"); });
  return true;
}

std::vector<Declaration> read_headers(const Platform& platform) {
  const std::string folder = platform.library.substr(0, platform.library.rfind('/')) + kFolder;
  std::vector<Declaration> all;
  for (const char* header : kHeaders) {
    if (!add_header(folder + header, all)) return {};
  }
  return all;
}

struct Names {
  std::unordered_set<std::string_view> whole;
  std::vector<std::string_view> beginnings;
};

Names names_in(std::string_view text) {
  Names names;
  for (size_t i = 0; i < text.size();) {
    if (!is_name_character(text[i])) {
      ++i;
      continue;
    }
    const size_t begin = i;
    while (i < text.size() && is_name_character(text[i])) ++i;
    const std::string_view name = text.substr(begin, i - begin);
    if (std::isdigit(static_cast<unsigned char>(name.front())) != 0) continue;
    names.whole.insert(name);
    const size_t next = text.find_first_not_of(' ', i);
    if (next != std::string_view::npos && text.substr(next, 2) == "##") {
      names.beginnings.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::string declarations_for(const Device& device, const std::string& text) {
  if (!is_known_pocl(*device.platform)) return "";
  static const std::vector<Declaration> all = read_headers(*device.platform);
  if (all.empty()) return "";
  const Names names = names_in(text);
  const auto is_named = [&](const std::string& name) {
    return names.whole.count(name) != 0 ||
           std::any_of(names.beginnings.begin(), names.beginnings.end(),
                       [&](std::string_view begin) { return name.starts_with(begin); });
  };
  std::vector<const std::string*> lines;
  for (const Declaration& declaration : all) {
    const bool empty_condition = declaration.text.starts_with("#endif") && !lines.empty() &&
                                 lines.back()->starts_with("#if");
    if (empty_condition) {
      lines.pop_back();
    } else if (declaration.name.empty() || is_named(declaration.name)) {
      lines.push_back(&declaration.text);
    }
  }
  std::string result;
  for (const std::string* line : lines) result += *line + '\n';
  // The state in which PoCL's headers leave the compiler.
  return result + "#pragma OPENCL EXTENSION all : disable\n";
}

}  // namespace ocl
