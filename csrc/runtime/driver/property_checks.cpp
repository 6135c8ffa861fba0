#include "runtime/driver/property_checks.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/driver/driver_table.h"
#include "runtime/driver/utf8.h"

namespace outboard {
namespace {

// More than any machine has: such a number is an uninitialized or a negative one.
constexpr uint64_t kMostMemory = uint64_t{1} << 60;
constexpr uint32_t kMostAlignment = uint32_t{1} << 30;
constexpr uint32_t kMostComputeUnits = uint32_t{1} << 24;
constexpr uint32_t kMostVectorWidth = 1024;
// PyTorch knows a few; the kit keeps a pool of streams for each of four.
constexpr int32_t kMostPriority = 1 << 16;

bool is_power_of_two(uint32_t number) { return number != 0 && (number & (number - 1)) == 0; }

// "" or what is wrong, as the rest of "driver 'x' says that device 0 ".
std::string problem_of(const ob_driver& table, const ob_device_properties& p) {
  using c10::str;
  if (p.addressing != OB_ADDRESSING_POINTER && p.addressing != OB_ADDRESSING_HANDLE) {
    return str("has addressing ", p.addressing, ", and there are ", OB_ADDRESSING_POINTER,
               " (pointers) and ", OB_ADDRESSING_HANDLE, " (handles)");
  }
  if (p.host_access < OB_HOST_ACCESS_NONE || p.host_access > OB_HOST_ACCESS_COHERENT) {
    return str("has host access ", p.host_access, ", and there are ", OB_HOST_ACCESS_NONE,
               " (none) and ", OB_HOST_ACCESS_COHERENT, " (coherent)");
  }
  if (p.total_memory == 0) return "has 0 bytes of memory";
  if (p.total_memory > kMostMemory) {
    return str("has ", p.total_memory, " bytes of memory, more than any device");
  }
  if (p.max_allocation > p.total_memory) {
    return str("gives up to ", p.max_allocation, " bytes in one allocation and has only ",
               p.total_memory, " in all");
  }
  if (!is_power_of_two(p.alignment) || p.alignment > kMostAlignment) {
    return str("aligns memory to ", p.alignment, " bytes, which is no power of two",
               p.alignment > kMostAlignment ? " up to 2^30" : "");
  }
  if (p.compute_units > kMostComputeUnits) {
    return str("has ", p.compute_units, " compute units, more than any device");
  }
  if (p.preferred_vector_width > kMostVectorWidth) {
    return str("prefers vectors of ", p.preferred_vector_width, " numbers, more than any device");
  }
  if (p.max_work_group_size > 0 && p.subgroup_size > p.max_work_group_size) {
    return str("has sub-groups of ", p.subgroup_size, " work items in work groups of up to ",
               p.max_work_group_size);
  }
  if (table.memory_map != nullptr &&
      (p.mapping_granularity < p.alignment || p.mapping_granularity > kMostAlignment ||
       !is_power_of_two(static_cast<uint32_t>(p.mapping_granularity)))) {
    return str("maps memory in multiples of ", p.mapping_granularity,
               " bytes, and has `memory_map`; that has to be a power of two from ", p.alignment,
               " (its alignment) to 2^30");
  }
  if (p.least_priority < p.greatest_priority) {
    return str("has queues of priorities from ", p.greatest_priority, " (most urgent) to ",
               p.least_priority,
               " (least urgent), and the number of the least urgent must not be the smaller one");
  }
  if (p.least_priority > kMostPriority || p.greatest_priority < -kMostPriority) {
    return str("has queues of priorities from ", p.greatest_priority, " to ", p.least_priority,
               ", more than any device");
  }
  return "";
}

// Ends the text, and replaces what is no UTF-8. Returns whether something was replaced.
template <size_t kSize>
bool clean(char (&text)[kSize]) {
  text[kSize - 1] = '\0';
  return replace_invalid_utf8(text, std::strlen(text));
}

}  // namespace

ob_device_properties checked_properties(const ob_driver& table, int32_t device) {
  constexpr unsigned char kUntouched = 0xA5;
  struct {
    ob_device_properties properties;
    unsigned char after[1024];
  } given;
  std::memset(&given, 0, sizeof(given));
  std::memset(given.after, kUntouched, sizeof(given.after));
  ob_device_properties& p = given.properties;
  p.struct_size = sizeof(p);
  check_status(table.device_properties(table.context, device, &p), "device_properties");
  TORCH_CHECK(std::all_of(std::begin(given.after), std::end(given.after),
                          [&](unsigned char byte) { return byte == kUntouched; }),
              "driver '", table.name, "' wrote past the properties of device ", device,
              ": it was given ", sizeof(p),
              " bytes (struct_size), and must fill no more of the struct than that");
  p.struct_size = sizeof(p);
  if (p.alignment == 0) p.alignment = 64;
  if (p.max_allocation == 0) p.max_allocation = p.total_memory;
  const std::string problem = problem_of(table, p);
  TORCH_CHECK(problem.empty(), "driver '", table.name, "' cannot be used: it says that device ",
              device, " ", problem, "; its `device_properties` has to be corrected");
  bool replaced = clean(p.name);
  replaced = clean(p.vendor) || replaced;
  replaced = clean(p.driver_version) || replaced;
  if (replaced) {
    TORCH_WARN("driver '", table.name, "' gives device ", device,
               " a name, vendor or version that is not UTF-8; it appears as '", p.name, "', '",
               p.vendor, "', '", p.driver_version, "'");
  }
  return p;
}

}  // namespace outboard
