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

std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  const std::string own = own_path();
  if (const size_t end = own.rfind("/torch_outboard/drivers/"); end != std::string::npos) {
    folders.push_back(own.substr(0, end));
  }
  const auto add = [](dl_phdr_info* info, size_t, void* argument) {
    auto& found = *static_cast<std::vector<std::string>*>(argument);
    const std::string path = info->dlpi_name == nullptr ? "" : info->dlpi_name;
    for (const std::string name : {"/site-packages", "/dist-packages"}) {
      const size_t start = path.rfind(name + "/");
      if (start == std::string::npos) continue;
      const std::string folder = path.substr(0, start + name.size());
      if (std::find(found.begin(), found.end(), folder) == found.end()) found.push_back(folder);
    }
    return 0;
  };
  dl_iterate_phdr(add, &folders);
  return folders;
}

std::string file_of_package(const std::string& name) {
  for (const std::string& folder : package_folders()) {
    if (access((folder + "/" + name).c_str(), R_OK) == 0) return folder + "/" + name;
  }
  return "";
}

}  // namespace drivers
