// Finding OpenCL: the system's loader, which knows the installed drivers, and drivers that came as
// Python packages and that no loader knows.
//
// A driver alone is enough. It exports clGetExtensionFunctionAddress, which knows
// clIcdGetPlatformIDsKHR, and the first word of a platform points to the table of its functions
// (extension cl_khr_icd).
#include <common/packages.h>
#include <common/system.h>
#include <dlfcn.h>
#include <glob.h>
#include <outboard/library_file.h>

#include <algorithm>
#include <cstring>

#include "ocl.h"

namespace ocl {
namespace {

using GetPlatforms = cl_int (*)(cl_uint, cl_platform_id*, cl_uint*);

// Drivers in Python packages: PoCL (pocl-binary-distribution), and Intel's for CPUs
// (intel-opencl-rt), whose libraries go to <prefix>/lib, two levels above the packages.
std::vector<std::string> packaged_drivers() {
  std::vector<std::string> files;
  for (const std::string& folder : drivers::package_folders()) {
    for (const char* pattern : {"/../../libintelocl.so", "/pyopencl/.libs/libpocl*.so*"}) {
      glob_t matches = {};
      if (glob((folder + pattern).c_str(), 0, nullptr, &matches) == 0) {
        files.insert(files.end(), matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
      }
      globfree(&matches);
    }
  }
  return files;
}

std::string platform_info(const OpenCL& api, cl_platform_id platform, cl_uint what) {
  size_t bytes = 0;
  if (api.clGetPlatformInfo(platform, what, 0, nullptr, &bytes) != CL_SUCCESS) return "";
  std::string text(bytes, '\0');
  if (api.clGetPlatformInfo(platform, what, bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  return text.c_str();
}

// The file that holds the dispatch table of a platform, i.e. the driver.
std::string file_of(cl_platform_id platform, const std::string& otherwise) {
  Dl_info info = {};
  const bool found = dladdr(*reinterpret_cast<void**>(platform), &info) != 0;
  return found && info.dli_fname != nullptr ? info.dli_fname : otherwise;
}

void take_from_table(cl_platform_id platform, bool with_2_0, OpenCL& api) {
  void* const* table = *reinterpret_cast<void***>(platform);
#define OUTBOARD_TAKE(index, result, name, arguments) \
  api.name = reinterpret_cast<decltype(api.name)>(table[index]);
  OUTBOARD_OPENCL_1_2(OUTBOARD_TAKE)
  // The table of an older driver ends before these.
  if (with_2_0) {
    OUTBOARD_OPENCL_2_0(OUTBOARD_TAKE)
  }
#undef OUTBOARD_TAKE
}

// False if the library does not export all of OpenCL 1.2.
bool take_by_name(void* library, OpenCL& api) {
  bool complete = true;
#define OUTBOARD_TAKE(index, result, name, arguments) \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, #name));
#define OUTBOARD_TAKE_NEEDED(index, result, name, arguments) \
  OUTBOARD_TAKE(index, result, name, arguments)              \
  complete = complete && api.name != nullptr;
  OUTBOARD_OPENCL_1_2(OUTBOARD_TAKE_NEEDED)
  OUTBOARD_OPENCL_2_0(OUTBOARD_TAKE)
#undef OUTBOARD_TAKE_NEEDED
#undef OUTBOARD_TAKE
  return complete;
}

bool at_least(const std::string& version, int major, int minor) {
  int found_major = 0;
  int found_minor = 0;
  if (std::sscanf(version.c_str(), "OpenCL %d.%d", &found_major, &found_minor) != 2) return false;
  return found_major > major || (found_major == major && found_minor >= minor);
}

// Why a library could not be loaded.
std::string load_error(const std::string& file) {
  std::string error = dlerror();
  // intel-opencl-rt does not install everything that it needs.
  if (file.find("libintelocl") != std::string::npos && error.find(file) != 0) {
    error += " (what is missing is in the package intel-cmplr-lib-rt)";
  }
  return error;
}

// Adds the platforms of one library and returns the line of the report.
std::string add_platforms(const std::string& file, std::vector<Platform*>& platforms) {
  if (const char* problem = ob_library_problem(file.c_str())) return std::string("it ") + problem;
  // Never closed: its threads and exit handlers stay.
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return load_error(file);
  OpenCL exported;
  const bool is_loader = take_by_name(library, exported);
  auto get_platforms =
      reinterpret_cast<GetPlatforms>(is_loader ? dlsym(library, "clGetPlatformIDs") : nullptr);
  if (!is_loader) {
    auto get_address =
        reinterpret_cast<void* (*)(const char*)>(dlsym(library, "clGetExtensionFunctionAddress"));
    if (get_address != nullptr) {
      get_platforms = reinterpret_cast<GetPlatforms>(get_address("clIcdGetPlatformIDsKHR"));
    }
  }
  if (get_platforms == nullptr) return "it is not an OpenCL library";
  cl_uint count = 0;
  get_platforms(0, nullptr, &count);  // a loader without drivers returns an error code
  if (count == 0) return "no platform";
  std::vector<cl_platform_id> ids(count);
  const cl_int code = get_platforms(count, ids.data(), nullptr);
  if (code != CL_SUCCESS) return "listing its platforms returned " + code_name(code);

  std::string report;
  for (cl_platform_id id : ids) {
    Platform found;
    found.api = exported;
    found.id = id;
    if (!is_loader) take_from_table(id, /*with_2_0=*/false, found.api);
    found.name = platform_info(found.api, id, CL_PLATFORM_NAME);
    found.version = platform_info(found.api, id, CL_PLATFORM_VERSION);
    found.library = file_of(id, file);
    if (!is_loader && at_least(found.version, 2, 0)) take_from_table(id, true, found.api);
    report += (report.empty() ? "" : "; ") + found.name + ", " + found.version;
    const bool known = std::any_of(platforms.begin(), platforms.end(), [&](const Platform* other) {
      return other->name == found.name;
    });
    if (known) {
      report += " (not used: a platform of this name was found before)";
    } else if (!at_least(found.version, 1, 2)) {
      report += " (not used: OpenCL 1.2 is needed)";
    } else {
      platforms.push_back(new Platform(found));
    }
  }
  return report;
}

}  // namespace

std::vector<Platform*> find_platforms(const Settings& settings, std::string& report) {
  std::vector<Platform*> platforms;
  if (!settings.library.empty()) {
    const std::string found = add_platforms(settings.library, platforms);
    if (platforms.empty()) {
      fail(OB_INVALID_ARGUMENT, "OUTBOARD_OCL_LIBRARY=%s cannot be used: %s.",
           settings.library.c_str(), found.c_str());
    }
    report += settings.library + ": " + found + "\n";
    return platforms;
  }
  std::vector<std::string> files = packaged_drivers();
  const bool has_packages = !files.empty();
  files.insert(files.begin(), "libOpenCL.so.1");
  for (const std::string& file : files) {
    report += file + ": " + add_platforms(file, platforms) + "\n";
  }
  if (!has_packages) {
    report +=
        "no OpenCL driver in Python packages (there is pocl-binary-distribution for x86-64)\n";
  }
  return platforms;
}

}  // namespace ocl
