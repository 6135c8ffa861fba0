// From the source of a program to machine code: preprocess, find kernels, append their entries,
// compile, link.
#include "compiler.h"

#include <common/failures.h>

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
    fail(OB_UNSUPPORTED, "`%s --version` answers \"%.80s\", which is no clang; %s.",
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
       "The compiler `%s` said that it had succeeded, and what it wrote is no ELF file; %s.",
       used.command.c_str(), used.advice.c_str());
}

}  // namespace compiler
