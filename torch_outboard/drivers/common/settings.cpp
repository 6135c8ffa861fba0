#include "settings.h"

#include <dlfcn.h>
#include <link.h>
#include <settings/settings.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "failure.h"

namespace drivers {

std::string text_setting(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

uint64_t number_setting(const char* variable, uint64_t smallest, uint64_t largest,
                        uint64_t otherwise) {
  char problem[256];
  if (!read_number(variable, smallest, largest, &otherwise, problem, sizeof problem)) {
    fail(OB_INVALID_ARGUMENT, "%s", problem);
  }
  return otherwise;
}

std::string choice_setting(const char* variable, std::vector<const char*> choices) {
  const char* chosen = "";
  char problem[256];
  choices.push_back(nullptr);
  if (!read_choice(variable, choices.data(), &chosen, problem, sizeof problem)) {
    fail(OB_INVALID_ARGUMENT, "%s", problem);
  }
  return chosen;
}

std::vector<std::string> list_setting(const char* variable) {
  const std::string text = text_setting(variable);
  std::vector<std::string> items;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const size_t first = text.find_first_not_of(' ', begin);
    if (first < end) {
      items.push_back(text.substr(first, text.find_last_not_of(' ', end - 1) + 1 - first));
    }
    begin = end + 1;
  }
  if (!text.empty() && items.empty()) {
    fail(OB_INVALID_ARGUMENT, "%s=%.100s names nothing.", variable, text.c_str());
  }
  return items;
}

// This library lies below its package, others in packages beside it; it may also lie in a source
// tree, or somewhere else, and be told by libraries of the process where packages are.
std::string file_of_package(const std::string& name) {
  std::vector<std::string> libraries;
  Dl_info own = {};
  if (dladdr(reinterpret_cast<void*>(&file_of_package), &own) != 0) {
    libraries.emplace_back(own.dli_fname);
  }
  const auto add = [](dl_phdr_info* info, size_t, void* found) {
    static_cast<std::vector<std::string>*>(found)->emplace_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &libraries);
  for (const std::string& library : libraries) {
    for (const char* below : {"/torch_outboard/", "/site-packages/", "/dist-packages/"}) {
      const size_t start = library.find(below);
      if (start == std::string::npos) continue;
      const size_t end = below[1] == 't' ? start + 1 : start + std::strlen(below);
      std::string file = library.substr(0, end) + name;
      if (access(file.c_str(), R_OK) == 0) return file;
    }
  }
  return "";
}

}  // namespace drivers
