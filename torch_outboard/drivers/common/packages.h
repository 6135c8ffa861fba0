// Files of the Python environment that a driver lies in.
#ifndef OUTBOARD_DRIVERS_COMMON_PACKAGES_H
#define OUTBOARD_DRIVERS_COMMON_PACKAGES_H

#include <string>
#include <vector>

namespace drivers {

// The path of the driver's own shared library, "" if the system does not know it.
std::string own_path();
// Folders that hold Python packages: the one with torch_outboard, if the library is one of it, then
// those that other libraries of the process come from, such as PyTorch's.
std::vector<std::string> package_folders();
// The path of a file in one of them, such as "ziglang/zig"; "" if none has it.
std::string file_of_package(const std::string& name);

}  // namespace drivers

#endif  // OUTBOARD_DRIVERS_COMMON_PACKAGES_H
