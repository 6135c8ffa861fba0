// The declarations of OpenCL C's functions that a source names, in place of all that there are.
//
// The compiler of PoCL reads opencl-c.h before each source. Its 14,500 declarations take two thirds
// of a build. With the header's include guard defined the compiler skips it, and the source begins
// with those declarations whose names occur in it: with all overloads of a name, so that each call
// means the same. A macro may paste a name together, so what stands before `##` brings all names
// that begin with it. A name that is missed all the same is an error of the compiler, and the
// caller builds again with the whole header.
#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string_view>
#include <unordered_set>

#include "../ocl.h"

namespace ocl {
namespace {

// From the folder of the library of the known build; the second has PoCL's additions.
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

// With the lines that it goes on with after a backslash.
bool read_line(std::istream& stream, std::string& line) {
  if (!std::getline(stream, line)) return false;
  for (std::string rest; line.ends_with('\\') && std::getline(stream, rest);) {
    line.pop_back();
    line += rest;
  }
  return true;
}

// Adds what a header has behind its guard and the line after that, without the headers that it
// includes: PoCL includes them by itself. False if the file is not as it is known.
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

bool is_name_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

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
  // As PoCL leaves the compiler behind its headers.
  return result + "#pragma OPENCL EXTENSION all : disable\n";
}

}  // namespace ocl
