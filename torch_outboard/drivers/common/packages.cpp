#include "packages.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>

namespace drivers {

std::string own_path() {
  Dl_info own;
  const bool known = dladdr(reinterpret_cast<void*>(&own_path), &own) != 0;
  return known && own.dli_fname != nullptr ? own.dli_fname : "";
}

namespace {

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  const auto add = [](dl_phdr_info* info, size_t, void* argument) {
    auto& found = *static_cast<std::vector<std::string>*>(argument);
    if (info->dlpi_name != nullptr) found.push_back(info->dlpi_name);
    return 0;
  };
  dl_iterate_phdr(add, &paths);
  return paths;
}

}  // namespace

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  const auto add = [&](const std::string& folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(folder);
    }
  };
  const std::string own = own_path();
  if (const size_t end = own.rfind("/torch_outboard/drivers/"); end != std::string::npos) {
    add(own.substr(0, end));
  }
  for (const std::string& path : loaded_libraries()) {
    for (const std::string name : {"/site-packages", "/dist-packages"}) {
      const size_t start = path.rfind(name + "/");
      if (start != std::string::npos) add(path.substr(0, start + name.size()));
    }
    // A source tree, for drivers of other packages.
    const size_t start = path.rfind("/torch_outboard/lib/");
    if (start != std::string::npos) add(path.substr(0, start));
  }
  return folders;
}

std::string file_of_package(const std::string& name) {
  for (const std::string& folder : package_folders()) {
    if (access((folder + "/" + name).c_str(), R_OK) == 0) return folder + "/" + name;
  }
  return "";
}

}  // namespace drivers
