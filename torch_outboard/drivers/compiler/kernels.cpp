// Finds the kernels of a preprocessed source, which has no comments and macros left.
#include <common/failures.h>

#include <algorithm>
#include <cctype>

#include "compiler.h"

namespace compiler {
namespace {

using Tokens = std::vector<std::string_view>;

// As many as the driver `host` has room for.
constexpr size_t kMostParameters = 256;

bool is_name_character(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool is_name(std::string_view token) {
  return is_name_character(token.front()) && !std::isdigit(static_cast<unsigned char>(token[0]));
}

// The index behind the string or character constant at `i`.
size_t skip_constant(std::string_view text, size_t i) {
  const char quote = text[i++];
  while (i < text.size() && text[i] != quote) i += text[i] == '\\' ? 2 : 1;
  return std::min(i + 1, text.size());
}

// The index behind the parenthesis that belongs to the one at `i`, or behind the last token.
size_t skip_parentheses(const Tokens& tokens, size_t i) {
  for (int depth = 0; i < tokens.size(); ++i) {
    if (tokens[i] == "(") ++depth;
    if (tokens[i] == ")" && --depth == 0) return i + 1;
  }
  return i;
}

// Names and numbers, constants, and single characters, without attributes and lines that begin
// with #.
Tokens tokens_of(std::string_view text) {
  Tokens all;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '#' && (i == 0 || text[i - 1] == '\n')) {
      i = std::min(text.find('\n', i), text.size());
    } else if (std::isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
    } else {
      size_t end = i + 1;
      if (is_name_character(text[i])) {
        while (end < text.size() && is_name_character(text[end])) ++end;
      } else if (text[i] == '"' || text[i] == '\'') {
        end = skip_constant(text, i);
      }
      all.push_back(text.substr(i, end - i));
      i = end;
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i] != "__attribute__") continue;
    all.erase(all.begin() + i, all.begin() + skip_parentheses(all, i + 1));
    --i;
  }
  return all;
}

[[noreturn]] void refuse(std::string_view kernel) {
  drivers::fail(OB_BUILD_FAILED, "The parameters of the kernel %s cannot be read.",
                std::string(kernel).c_str());
}

// A parameter's type. Pointers count as addresses, those to local memory, too.
struct Parameter {
  std::string type;
  ob_argument_kind kind = OB_ARGUMENT_VALUE;
};

// Reads the parameter that begins at `i`, up to the comma or the parenthesis behind it.
Parameter read_parameter(std::string_view kernel, const Tokens& tokens, size_t& i) {
  Parameter read;
  const size_t first = i;
  while (i < tokens.size() && tokens[i] != "," && tokens[i] != ")") {
    // Pointers to functions and arrays are no parameters of kernels.
    if (tokens[i] == "(" || tokens[i] == "[") refuse(kernel);
    if (tokens[i] == "*") read.kind = OB_ARGUMENT_ADDRESS;
    ++i;
  }
  if (i == tokens.size() || i - first < 2 || !is_name(tokens[i - 1])) refuse(kernel);
  for (size_t k = first; k < i - 1; ++k) {
    read.type += (k == first ? "" : " ") + std::string(tokens[k]);
  }
  return read;
}

// The entry of the kernel whose parameters stand behind the parenthesis at `open`.
std::string entry_of(std::string_view kernel, const Tokens& tokens, size_t open) {
  std::vector<Parameter> parameters;
  const size_t end = skip_parentheses(tokens, open) - 1;
  const bool none = end == open + 1 || (end == open + 2 && tokens[open + 1] == "void");
  for (size_t i = open; !none && i < end;) {
    if (parameters.size() == kMostParameters) refuse(kernel);
    parameters.push_back(read_parameter(kernel, tokens, ++i));
  }
  const std::string name(kernel);
  std::string sizes, arguments;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& each = parameters[i];
    sizes += ", " + std::to_string(each.kind) + ", sizeof(" + each.type + ")";
    arguments +=
        (i == 0 ? "" : ", ") + ("OB_ARGUMENT(" + std::to_string(i)) + ", " + each.type + ")";
  }
  return "__attribute__((visibility(\"default\"))) __constant const uint ob_parameters_" + name +
         "[] = {" + std::to_string(parameters.size()) + sizes + "};\nOB_ENTRY_BEGIN(" + name +
         ")\n" + name + "(" + arguments + ");\nOB_ENTRY_END\n";
}

}  // namespace

std::string entries_of(std::string_view preprocessed) {
  const Tokens tokens = tokens_of(preprocessed);
  std::string entries;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != "__kernel" && tokens[i] != "kernel") continue;
    // The name is the token before the parameters.
    size_t open = i;
    while (open < tokens.size() && tokens[open] != "(") ++open;
    const std::string_view name = tokens[open - 1];
    if (open == tokens.size() || open - 1 == i || !is_name(name)) refuse(name);
    const size_t behind = skip_parentheses(tokens, open);
    // A semicolon ends a declaration.
    if (behind < tokens.size() && tokens[behind] == "{") entries += entry_of(name, tokens, open);
    i = behind - 1;
  }
  if (entries.empty()) drivers::fail(OB_BUILD_FAILED, "The source defines no kernel.");
  return "\n#line 1 \"entries\"\n" + entries;
}

}  // namespace compiler
