// Devices: which ones, in which order, and their properties.
#include <common/settings.h>
#include <common/system.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "ocl.h"

namespace ocl {
namespace {

// Never destroyed: the process may use devices until its very end.
struct Found {
  std::mutex mutex;
  bool done = false;
  std::string report;
  std::vector<std::unique_ptr<Device>> devices;
};

Found& found() {
  static auto* instance = new Found;
  return *instance;
}

// A device before it is chosen.
struct Candidate {
  Platform* platform;
  cl_device_id id;
  cl_bitfield type;
  std::string name;  // platform/device
};

template <class T>
T info(const Candidate& candidate, cl_uint what) {
  T value = {};
  // An older device returns an error for an unknown property.
  if (candidate.platform->api.clGetDeviceInfo(candidate.id, what, sizeof(T), &value, nullptr) !=
      CL_SUCCESS) {
    return T{};
  }
  return value;
}

std::string text_info(const OpenCL& api, cl_device_id id, cl_uint what) {
  size_t bytes = 0;
  check(api.clGetDeviceInfo(id, what, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check(api.clGetDeviceInfo(id, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  text = text.c_str();
  text.erase(0, text.find_first_not_of(' '));
  return text;
}

bool has_extension(const Candidate& candidate, const char* name) {
  const std::string all =
      " " + text_info(candidate.platform->api, candidate.id, CL_DEVICE_EXTENSIONS) + " ";
  return all.find(" " + std::string(name) + " ") != std::string::npos;
}

std::vector<Candidate> list_candidates(const std::vector<Platform*>& platforms) {
  std::vector<Candidate> candidates;
  for (Platform* platform : platforms) {
    const OpenCL& api = platform->api;
    cl_uint count = 0;
    const cl_int code = api.clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    if (code != CL_SUCCESS || count == 0) {
      found().report += "  " + platform->name + " has no device\n";
      continue;
    }
    std::vector<cl_device_id> ids(count);
    check(api.clGetDeviceIDs(platform->id, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr),
          "clGetDeviceIDs");
    for (cl_device_id id : ids) {
      Candidate candidate = {platform, id, 0, platform->name + "/"};
      candidate.type = info<cl_bitfield>(candidate, CL_DEVICE_TYPE);
      candidate.name += text_info(api, id, CL_DEVICE_NAME);
      const char* problem = nullptr;
      if (info<cl_bool>(candidate, CL_DEVICE_AVAILABLE) == CL_FALSE) problem = "not available";
      if (info<cl_bool>(candidate, CL_DEVICE_ENDIAN_LITTLE) == CL_FALSE) problem = "big-endian";
      if (problem == nullptr) {
        candidates.push_back(candidate);
      } else {
        found().report += "  " + candidate.name + " is not used: it is " + problem + "\n";
      }
    }
  }
  const auto rank = [](const Candidate& candidate) {
    if ((candidate.type & CL_DEVICE_TYPE_GPU) != 0) return 0;
    if ((candidate.type & CL_DEVICE_TYPE_ACCELERATOR) != 0) return 1;
    return (candidate.type & CL_DEVICE_TYPE_CPU) != 0 ? 2 : 3;
  };
  std::stable_sort(candidates.begin(), candidates.end(),
                   [&](const Candidate& a, const Candidate& b) { return rank(a) < rank(b); });
  return candidates;
}

// The devices that OUTBOARD_OCL_DEVICES selects, in its order.
std::vector<Candidate> filter(const std::vector<Candidate>& all,
                              const std::vector<std::string>& wanted) {
  if (wanted.empty()) return all;
  std::vector<size_t> chosen;
  for (const std::string& item : wanted) {
    const bool is_number = item.find_first_not_of("0123456789") == std::string::npos;
    for (size_t i = 0; i < all.size(); ++i) {
      const bool matches = is_number ? std::strtoull(item.c_str(), nullptr, 10) == i
                                     : all[i].name.find(item) != std::string::npos;
      const bool is_new = std::find(chosen.begin(), chosen.end(), i) == chosen.end();
      if (matches && is_new) chosen.push_back(i);
    }
  }
  if (chosen.empty() && !all.empty()) {
    std::string names;
    for (size_t i = 0; i < all.size(); ++i) {
      names += (i == 0 ? "" : ", ") + std::to_string(i) + ": " + all[i].name;
    }
    fail(OB_INVALID_ARGUMENT, "OUTBOARD_OCL_DEVICES names none of the devices (%s).",
         names.c_str());
  }
  std::vector<Candidate> result;
  for (size_t i : chosen) result.push_back(all[i]);
  return result;
}

MemoryKind memory_kind(const Candidate& candidate, const Settings& settings) {
  const bool has_svm = candidate.platform->api.clSVMAlloc != nullptr;
  const cl_bitfield svm =
      has_svm ? info<cl_bitfield>(candidate, CL_DEVICE_SVM_CAPABILITIES) : cl_bitfield{0};
  const bool fine = (svm & CL_DEVICE_SVM_FINE_GRAIN_BUFFER) != 0;
  const bool coarse = (svm & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER) != 0;
  if ((settings.memory == "shared" && !fine) || (settings.memory == "coarse" && !coarse)) {
    fail(OB_INVALID_ARGUMENT, "OUTBOARD_OCL_MEMORY=%s asks for what %s does not have; it has %s.",
         settings.memory.c_str(), candidate.name.c_str(),
         coarse ? "coarse-grained shared virtual memory, and buffers (coarse, handles)"
                : "buffers alone (handles)");
  }
  if (settings.memory == "shared") return MemoryKind::kShared;
  if (settings.memory == "coarse") return MemoryKind::kCoarse;
  if (settings.memory == "handles") return MemoryKind::kHandles;
  if (fine && (candidate.type & CL_DEVICE_TYPE_CPU) != 0) return MemoryKind::kShared;
  // Kernels are as fast on buffers, and allocating shared virtual memory takes 0.4 ms per MiB.
  if (candidate.platform->name == kNvidia) return MemoryKind::kHandles;
  return coarse ? MemoryKind::kCoarse : MemoryKind::kHandles;
}

bool program_in_path(const char* name) {
  std::istringstream folders(drivers::text_setting("PATH"));
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::string find_no_code_reason(const Candidate& candidate) {
  if (info<cl_bool>(candidate, CL_DEVICE_COMPILER_AVAILABLE) == CL_FALSE) {
    return candidate.name + " has no compiler, so it runs no kernels.";
  }
  // PoCL links each kernel with `ld`, and ends the process when it cannot.
  if (candidate.platform->name == kPocl && !program_in_path("ld")) {
    return "PoCL needs the linker `ld` to build kernels, and PATH has none; install binutils.";
  }
  return "";
}

// Tells apart all devices and drivers for which a binary may differ.
std::string version_key(const Candidate& candidate, const std::string& processor) {
  const OpenCL& api = candidate.platform->api;
  const std::string driver = text_info(api, candidate.id, CL_DRIVER_VERSION);
  std::string all = candidate.name + "\n" + candidate.platform->version + "\n" + driver + "\n" +
                    text_info(api, candidate.id, CL_DEVICE_VERSION);
  struct stat file = {};
  if (stat(candidate.platform->library.c_str(), &file) == 0) {
    all += "\n" + std::to_string(file.st_size) + "\n" + std::to_string(file.st_mtim.tv_sec);
  }
  if (!processor.empty()) all += "\n" + processor;
  all += surroundings_of_sources(*candidate.platform);
  char key[sizeof(ob_device_properties::driver_version)];
  std::snprintf(key, sizeof key, "%.40s %016" PRIx64, driver.c_str(),
                hash_bytes(HASH_START, all.data(), all.size()));
  return key;
}

const char* memory_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kShared:
      return "shared memory";
    case MemoryKind::kCoarse:
      return "coarse-grained shared virtual memory";
    case MemoryKind::kHandles:
      break;
  }
  return "buffers";
}

uint32_t find_subgroup_size(const Candidate& candidate) {
  if (!has_extension(candidate, "cl_khr_subgroups")) return 0;
  // OpenCL tells it per kernel; vendors have a query for the device.
  constexpr cl_uint kNvidiaWarpSize = 0x4003;
  constexpr cl_uint kAmdWavefrontWidth = 0x4043;
  constexpr cl_uint kIntelSizes = 0x4108;
  for (const cl_uint what : {kNvidiaWarpSize, kAmdWavefrontWidth}) {
    if (const cl_uint size = info<cl_uint>(candidate, what)) return size;
  }
  struct Sizes {
    size_t first;
    size_t others[7];
  };
  size_t bytes = 0;
  const OpenCL& api = candidate.platform->api;
  if (api.clGetDeviceInfo(candidate.id, kIntelSizes, 0, nullptr, &bytes) != CL_SUCCESS) return 0;
  Sizes sizes = {};
  if (bytes > sizeof sizes) return 0;
  api.clGetDeviceInfo(candidate.id, kIntelSizes, bytes, &sizes, nullptr);
  return static_cast<uint32_t>(sizes.first);
}

// PoCL 3.0 does not compile vectors of 16 floats for each processor that says it has them: on some
// it ends the process, on others the compilation does not end. Vectors of 8 are nearly as fast.
constexpr uint32_t kWidestVectors = 8;
// The first of NVIDIA's compute capabilities, times ten, with the instructions of matrix_units.cl.
constexpr uint32_t kMatrixUnits = 80;
// The one with wgmma.
constexpr uint32_t kWarpgroups = 90;
// Bytes of local memory that a group may have there, by the CUDA C++ Programming Guide's table of
// compute capabilities. NVIDIA's OpenCL announces 48 KiB, and compiles and runs kernels with more.
constexpr uint32_t kWarpgroupLocalMemory = 227 << 10;

bool masked(const Settings& settings, const char* name) {
  return std::find(settings.mask.begin(), settings.mask.end(), name) != settings.mask.end();
}

uint64_t total_memory(const Candidate& candidate, const Settings& settings) {
  if (settings.memory_bytes != 0) return settings.memory_bytes;
  uint64_t total = info<cl_ulong>(candidate, CL_DEVICE_GLOBAL_MEM_SIZE);
  if ((candidate.type & CL_DEVICE_TYPE_CPU) != 0) {
    total = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
            static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) / 2;
  }
  return total / settings.copies;
}

template <size_t size>
void set_text(char (&field)[size], const std::string& text) {
  std::snprintf(field, size, "%s", text.c_str());
}

void fill_properties(const Candidate& candidate, const Settings& settings, const std::string& name,
                     Device& device) {
  const OpenCL& api = candidate.platform->api;
  ob_device_properties& p = device.properties;
  set_text(p.name, name);
  set_text(p.vendor, text_info(api, candidate.id, CL_DEVICE_VENDOR));
  set_text(p.driver_version, version_key(candidate, device.processor.name));
  p.kind = (candidate.type & CL_DEVICE_TYPE_GPU) != 0           ? OB_DEVICE_GPU
           : (candidate.type & CL_DEVICE_TYPE_ACCELERATOR) != 0 ? OB_DEVICE_ACCELERATOR
           : (candidate.type & CL_DEVICE_TYPE_CPU) != 0         ? OB_DEVICE_CPU
                                                                : OB_DEVICE_OTHER;
  p.addressing =
      device.memory == MemoryKind::kHandles ? OB_ADDRESSING_HANDLE : OB_ADDRESSING_POINTER;
  p.host_access =
      device.memory == MemoryKind::kShared ? OB_HOST_ACCESS_COHERENT : OB_HOST_ACCESS_NONE;
  p.dtypes = OB_DTYPE_BOOL | OB_DTYPE_UINT8 | OB_DTYPE_INT8 | OB_DTYPE_INT16 | OB_DTYPE_INT32 |
             OB_DTYPE_INT64 | OB_DTYPE_UINT16 | OB_DTYPE_UINT32 | OB_DTYPE_UINT64 |
             OB_DTYPE_FLOAT32 | OB_DTYPE_COMPLEX64;
  if (info<cl_bitfield>(candidate, CL_DEVICE_DOUBLE_FP_CONFIG) != 0 &&
      !masked(settings, "float64")) {
    p.dtypes |= OB_DTYPE_FLOAT64 | OB_DTYPE_COMPLEX128;
  }
  if (has_extension(candidate, "cl_khr_fp16") && !masked(settings, "float16")) {
    p.dtypes |= OB_DTYPE_FLOAT16;
  }
  p.features = OB_FEATURE_LAUNCH_EVENTS;
  // For a binary PoCL compiles each kernel once more, for work groups of all sizes, and launches of
  // other kernels wait meanwhile.
  const char* cache = std::getenv("POCL_KERNEL_CACHE");
  if (is_known_pocl(*device.platform) && (cache == nullptr || std::strcmp(cache, "0") != 0)) {
    p.features |= OB_FEATURE_COMPILER_CACHE;
    device.compilers = compiler_limit(settings);
  }
  if (device.host_memory_is_device_memory) p.features |= OB_FEATURE_HOST_MEMORY_IS_DEVICE_MEMORY;
  p.subgroup_size = masked(settings, "subgroups") ? 0 : find_subgroup_size(candidate);
  p.total_memory = total_memory(candidate, settings);
  p.max_allocation =
      std::min<uint64_t>(p.total_memory, info<cl_ulong>(candidate, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  p.alignment = 128;  // the largest type of OpenCL C, double16
  p.compute_units = info<cl_uint>(candidate, CL_DEVICE_MAX_COMPUTE_UNITS);
  p.preferred_vector_width = info<cl_uint>(candidate, CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT);
  if (p.kind != OB_DEVICE_GPU) {
    p.preferred_vector_width = std::min(p.preferred_vector_width, kWidestVectors);
  }
  if (device.no_code_reason.empty()) {
    p.max_work_group_size =
        static_cast<uint32_t>(info<size_t>(candidate, CL_DEVICE_MAX_WORK_GROUP_SIZE));
  }
  p.local_memory = static_cast<uint32_t>(
      std::min<cl_ulong>(info<cl_ulong>(candidate, CL_DEVICE_LOCAL_MEM_SIZE), UINT32_MAX));
  if (has_extension(candidate, "cl_nv_compiler_options") &&
      has_extension(candidate, "cl_nv_device_attribute_query")) {
    device.nvidia_version = info<cl_uint>(candidate, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV) * 10 +
                            info<cl_uint>(candidate, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV);
  }
  if (device.nvidia_version >= kMatrixUnits && !masked(settings, "matrix_units")) {
    p.features |= OB_FEATURE_MATRIX_UNITS;
    if (device.nvidia_version == kWarpgroups) {
      p.features |= OB_FEATURE_WARPGROUPS;
      p.local_memory = kWarpgroupLocalMemory;
    }
  }
  // OpenCL knows three priorities, and queues without one are in the middle.
  device.has_priorities = has_extension(candidate, "cl_khr_priority_hints") &&
                          api.clCreateCommandQueueWithProperties != nullptr;
  p.greatest_priority = device.has_priorities ? -1 : 0;
  p.least_priority = device.has_priorities ? 1 : 0;
}

std::unique_ptr<Device> open_device(const Candidate& candidate, const Settings& settings,
                                    int32_t index, uint64_t copy) {
  auto device = std::make_unique<Device>();
  device->index = index;
  device->api = &candidate.platform->api;
  device->platform = candidate.platform;
  device->id = candidate.id;
  device->memory = memory_kind(candidate, settings);
  // PoCL and Intel's driver run kernels in threads of this process: any pointer of it will do.
  const cl_bitfield svm = info<cl_bitfield>(candidate, CL_DEVICE_SVM_CAPABILITIES);
  device->host_memory_is_device_memory =
      device->memory == MemoryKind::kShared &&
      ((candidate.type & CL_DEVICE_TYPE_CPU) != 0 || (svm & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM) != 0);
  device->late_events = settings.events.empty() ? (candidate.type & CL_DEVICE_TYPE_CPU) == 0
                                                : settings.events == "late";
  device->no_code_reason = find_no_code_reason(candidate);
  device->processor = choose_processor(*candidate.platform, candidate.id, settings);
  std::string name = text_info(*device->api, candidate.id, CL_DEVICE_NAME);
  if (settings.copies > 1) name += " (copy " + std::to_string(copy) + ")";
  fill_properties(candidate, settings, name, *device);
  const intptr_t properties[] = {CL_CONTEXT_PLATFORM,
                                 reinterpret_cast<intptr_t>(candidate.platform->id), 0};
  cl_int code = CL_SUCCESS;
  device->context =
      device->api->clCreateContext(properties, 1, &candidate.id, nullptr, nullptr, &code);
  check(code, "clCreateContext");
  found().report += "  device " + std::to_string(index) + ": " + candidate.platform->name + "/" +
                    name + ", " + memory_name(device->memory) + "\n";
  if (!device->processor.name.empty()) {
    found().report +=
        "    PoCL compiles for " + device->processor.name + device->processor.reason + "\n";
  }
  if (!device->no_code_reason.empty()) found().report += "    " + device->no_code_reason + "\n";
  return device;
}

}  // namespace

void find_devices() {
  Found& f = found();
  std::lock_guard lock(f.mutex);
  if (f.done) return;
  f.report.clear();
  const Settings settings = read_settings();
  const PoclCacheScope pocl_cache(f.report);
  const std::vector<Platform*> platforms = find_platforms(settings, f.report);
  const std::vector<Candidate> chosen = filter(list_candidates(platforms), settings.devices);
  std::vector<std::unique_ptr<Device>> opened;
  for (const Candidate& candidate : chosen) {
    for (uint64_t copy = 0; copy < settings.copies; ++copy) {
      opened.push_back(open_device(candidate, settings, static_cast<int32_t>(opened.size()), copy));
    }
  }
  f.devices = std::move(opened);
  f.done = true;
}

const std::string& discovery_report() { return found().report; }

std::string no_device_reason() {
  std::string reason;
  std::istringstream lines(found().report);
  for (std::string line; std::getline(lines, line);) {
    line.erase(0, line.find_first_not_of(' '));
    reason += (reason.empty() ? "" : "; ") + line;
  }
  return "OpenCL has none (" + reason + ")";
}

const std::vector<std::unique_ptr<Device>>& devices() { return found().devices; }

Device& device_at(int32_t index) {
  const auto& all = devices();
  if (index < 0 || static_cast<size_t>(index) >= all.size()) {
    fail(OB_INVALID_ARGUMENT, "Device %d does not exist: OpenCL has %zu devices here.", index,
         all.size());
  }
  return *all[static_cast<size_t>(index)];
}

ob_status device_properties(int32_t index, ob_device_properties* properties) {
  ob_device_properties ours = device_at(index).properties;
  ours.struct_size = properties->struct_size;
  // The caller may have been compiled with an older, shorter struct.
  std::memcpy(properties, &ours, std::min(properties->struct_size, sizeof ours));
  return OB_OK;
}

}  // namespace ocl
