// From the source of a program to machine code: preprocess, find kernels, append their entries,
// compile, link.
#include "compiler.h"

#include <common/failures.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

namespace compiler {

using drivers::fail;

namespace {

// ---- Commands

constexpr size_t kShownCommand = 1024;
constexpr int kShownMessage = 8000;

// Quoted for a shell; a long command is truncated.
std::string shown(const Words& command) {
  std::string text;
  for (const std::string& word : command) {
    const bool plain = !word.empty() && word.find_first_of(" '\"\\\t\n$") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain ? word : "'" + word + "'");
  }
  return text.substr(0, kShownCommand);
}

// The first line with the word "error", else the first line that is not blank.
std::string first_error(const std::string& log) {
  size_t found = log.find("error");
  if (found == std::string::npos) found = log.find_first_not_of(" \n");
  if (found == std::string::npos) return "";
  const size_t begin = found == 0 ? 0 : log.rfind('\n', found - 1) + 1;
  return log.substr(begin, log.find('\n', found) - begin);
}

// Runs a command and returns its output. Throws unless it ended with status 0, or an unknown one
// and printed no error.
std::string run_step(const Compiler& used, const Words& command, const Folder& folder,
                     const char* what) {
  Result result = run_command(command, folder.path, used.seconds);
  const std::string text = "`" + shown(command) + "`";
  const char* advice = used.advice.c_str();
  const bool failed = result.exit_status > 0 ||
                      (result.exit_status < 0 && result.output.find("error:") != std::string::npos);
  std::string problem;
  if (result.error != 0) {
    problem = drivers::format("could not be started (%s): %s; %s.", std::strerror(result.error),
                              text.c_str(), advice);
  } else if (result.timed_out) {
    problem = drivers::format("did not end within %llu seconds and was ended: %s; %s.",
                              static_cast<unsigned long long>(used.seconds), text.c_str(), advice);
  } else if (result.signal != 0) {
    problem =
        drivers::format("was ended by signal %d (%s): %s; %s.\n%s", result.signal,
                        strsignal(result.signal), text.c_str(), advice, result.output.c_str());
  } else if (failed) {
    // The log tells whether the source is wrong or the command.
    problem =
        drivers::format("failed with exit status %d: %s: %s\n%s", result.exit_status, text.c_str(),
                        first_error(result.output).c_str(), result.output.c_str());
  } else {
    return std::move(result.output);
  }
  fail(failed ? OB_BUILD_FAILED : OB_ERROR, "The %s %.*s", what, kShownMessage, problem.c_str());
}

// ---- Kernels of a source, and the entries that call them

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
  fail(OB_BUILD_FAILED, "The parameters of the kernel %s cannot be read.",
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

// The source of an entry for each kernel that a preprocessed source defines, which has no comments
// and macros left. Throws OB_BUILD_FAILED for a source without kernels.
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
  if (entries.empty()) fail(OB_BUILD_FAILED, "The source defines no kernel.");
  return "\n#line 1 \"entries\"\n" + entries;
}

// ---- Runs of the compiler

constexpr const char* kLanguage = "-x cl -cl-std=CL1.2 -cl-no-stdinc -Xclang -cl-ext=+all";

struct Step {
  std::string language;     // its options
  std::string options;      // of the program
  std::string precompiled;  // a precompiled header, read first; "": none
  std::string header;       // of the dialect, read next; "": none
  std::string kind;         // -E, -c or options for a precompiled header
  std::string from, to;
};

void run_compiler(const Compiler& used, const Folder& folder, const Step& step) {
  Words command = command_of(used.command);
  const auto add = [&](const Words& words) {
    command.insert(command.end(), words.begin(), words.end());
  };
  add(words_of(used.flags + " -w -fno-color-diagnostics"));
  if (!step.precompiled.empty()) add({"-include-pch", step.precompiled});
  if (!step.header.empty()) add({"-include", used.dialect + "/" + step.header});
  add(words_of(step.language + " " + step.options + " " + step.kind));
  add({step.from, "-o", step.to});
  run_step(used, command, folder, "compiler");
}

// Writes the result of a step that is the same for all programs of a compiler: the object of the
// current work-item, and the precompiled dialect, which takes ten times as long to compile as a
// program. Each is made once in a process and cached in memory.
void provide(const Compiler& used, const Folder& folder, const Step& step) {
  static auto& lock = *new std::mutex;
  static auto& results = *new std::map<std::string, std::string>;
  const std::lock_guard guard(lock);
  std::string& result =
      results[used.command + "\n" + used.flags + "\n" + step.options + "\n" + step.from];
  if (result.empty()) {
    run_compiler(used, folder, step);
    result = read_content(step.to);
  } else {
    write_content(step.to, result);
  }
}

// The program's options for the language, which must be the same for the precompiled dialect.
std::string language_options(const std::string& options) {
  std::string chosen;
  for (const std::string& word : words_of(options)) {
    if (word.rfind("-cl-", 0) == 0) chosen += word + " ";
  }
  return chosen;
}

}  // namespace

std::string version_of(const Compiler& used, int oldest) {
  constexpr const char* kName = "clang version ";
  const Folder folder;
  Words command = command_of(used.command);
  command.push_back("--version");
  std::string line;
  try {
    line = run_step(used, command, folder, "compiler");
  } catch (drivers::Failure& failure) {
    failure.status = OB_UNSUPPORTED;
    throw;
  }
  line = line.substr(0, line.find('\n'));
  const size_t found = line.find(kName);
  if (found == std::string::npos) {
    fail(OB_UNSUPPORTED, "`%s --version` answers \"%.80s\", which is not a clang; %s.",
         used.command.c_str(), line.c_str(), used.advice.c_str());
  }
  const int major = std::atoi(line.c_str() + found + std::strlen(kName));
  if (major < oldest) {
    fail(OB_UNSUPPORTED, "`%s` is of version %d, and programs need clang %d or newer; %s.",
         used.command.c_str(), major, oldest, used.advice.c_str());
  }
  return line;
}

std::string compile_program(const Compiler& used, const std::string& source,
                            const std::string& options) {
  const Folder folder;
  const std::string source_file = folder / "source.cl", preprocessed = folder / "preprocessed.cl";
  const std::string program = folder / "program.cl", dialect = folder / "dialect.pch";
  const std::string object = folder / "program.o", item_object = folder / "item.o";
  const std::string result = folder / "program";
  write_content(source_file, source);
  // Only kernels are looked for, so the dialect's types suffice.
  run_compiler(used, folder,
               {kLanguage, options, "", "language/types.h", "-E", source_file, preprocessed});
  write_content(program, "#line 1 \"" + source_file + "\"\n" + source +
                             entries_of(read_content(preprocessed)));
  provide(used, folder,
          {kLanguage, language_options(options), "", "", "-c -Xclang -emit-pch",
           used.dialect + "/opencl.h", dialect});
  run_compiler(used, folder, {kLanguage, options, dialect, "entry.h", "-c", program, object});
  provide(used, folder, {"-x c", "", "", "", "-c", used.dialect + "/current_item.c", item_object});

  Words link = words_of(used.link);
  link.insert(link.end(), {"-o", result, object, item_object});
  run_step(used, link, folder, "linker");
  std::string content = std::filesystem::exists(result) ? read_content(result) : "";
  if (content.size() > 64 && content.rfind("\177ELF", 0) == 0) return content;
  fail(OB_ERROR,
       "The compiler `%s` reported success and wrote something that is not an ELF file; %s.",
       used.command.c_str(), used.advice.c_str());
}

}  // namespace compiler

namespace {

// A pointer parameter takes an address, or local memory.
bool suits(const ob_argument& argument, kernel_parameter parameter) {
  const bool is_value = argument.kind == OB_ARGUMENT_VALUE;
  const bool is_pointer =
      argument.kind == OB_ARGUMENT_ADDRESS || argument.kind == OB_ARGUMENT_LOCAL;
  if (parameter.kind != OB_ARGUMENT_VALUE) return is_pointer;
  return is_value && argument.size == parameter.bytes && argument.value != nullptr;
}

}  // namespace

ob_status read_launch(const ob_launch* launch, const char* kernel,
                      const kernel_parameter* parameters, uint32_t count, item_range* items) try {
  using drivers::fail;
  *items = {{0, 0, 0}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, launch->dimensions};
  bool sized = launch->dimensions >= 1 && launch->dimensions <= 3;
  for (uint32_t i = 0; sized && i < launch->dimensions; i++) {
    sized = launch->local[i] == 1 && launch->global[i] > 0;
    items->last[i] = items->global_size[i] = launch->global[i];
  }
  if (!sized) {
    fail(OB_INVALID_ARGUMENT,
         "Kernel %s is launched in 1 to 3 dimensions, by 1 work-item or more in work-groups of 1.",
         kernel);
  }
  if (launch->argument_count != count) {
    fail(OB_INVALID_ARGUMENT, "Kernel %s has %u parameters and was launched with %u arguments.",
         kernel, count, launch->argument_count);
  }
  for (uint32_t i = 0; i < count; i++) {
    const ob_argument* argument = ob_argument_of(launch, i);
    if (suits(*argument, parameters[i])) continue;
    fail(OB_INVALID_ARGUMENT,
         "Argument %u of kernel %s is of kind %d with %u bytes, its parameter of kind %u with %u "
         "bytes.",
         i, kernel, argument->kind, argument->size, parameters[i].kind, parameters[i].bytes);
  }
  return OB_OK;
} catch (...) {
  return drivers::keep_exception();
}
