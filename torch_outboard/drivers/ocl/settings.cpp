// The settings, read once by `initialize`:
//
// - OUTBOARD_OCL_LIBRARY: an OpenCL loader or driver to use instead of those that are found.
// - OUTBOARD_OCL_DEVICES: which devices, in this order; numbers, or parts of "platform/device".
// - OUTBOARD_OCL_COPIES: how often each device is presented, 1 (default) to 16.
// - OUTBOARD_OCL_MEMORY: shared, coarse or handles; by default the first that a device suits.
// - OUTBOARD_OCL_MEMORY_BYTES: bytes of each device; by default what it has, or on a CPU half
//   of the machine's memory.
// - OUTBOARD_OCL_MASK: capabilities to do without, of float16, float64, subgroups, matrix_units.
// - OUTBOARD_OCL_PROCESSOR: LLVM's name of the processor that the packaged PoCL compiles for; by
//   default the one that it finds, or the nearest that its compiler knows. `unknown`: as if it had
//   found none.
// - OUTBOARD_OCL_COMPILER_PROCESSES: how many processes may compile for the packaged PoCL, 0 to 64;
//   4 by default, never more than cores. 0, or one core: this process compiles.
// - OUTBOARD_OCL_EVENTS: for tests; each command has an event (each), or events are made when
//   one is asked for (late). By default late on all but processors.
#include <common/settings.h>

#include "ocl.h"

namespace ocl {
namespace {

using drivers::choice_setting;
using drivers::list_setting;
using drivers::number_setting;
using drivers::text_setting;

void check_choice(const char* variable, const std::string& value,
                  std::initializer_list<const char*> choices) {
  std::string names;
  for (const char* choice : choices) {
    if (value == choice) return;
    names += (names.empty() ? "" : ", ") + std::string(choice);
  }
  fail(OB_INVALID_ARGUMENT, "%s: \"%.100s\" is none of %s.", variable, value.c_str(),
       names.c_str());
}

}  // namespace

Settings read_settings() {
  Settings settings;
  settings.library = text_setting("OUTBOARD_OCL_LIBRARY");
  settings.devices = list_setting("OUTBOARD_OCL_DEVICES");
  settings.copies = number_setting("OUTBOARD_OCL_COPIES", 1, 16, 1);
  settings.memory = choice_setting("OUTBOARD_OCL_MEMORY", {"shared", "coarse", "handles"});
  settings.memory_bytes = number_setting("OUTBOARD_OCL_MEMORY_BYTES", 1, uint64_t{1} << 60, 0);
  settings.mask = list_setting("OUTBOARD_OCL_MASK");
  settings.processor = text_setting("OUTBOARD_OCL_PROCESSOR");
  settings.events = choice_setting("OUTBOARD_OCL_EVENTS", {"each", "late"});
  settings.compiler_processes = number_setting("OUTBOARD_OCL_COMPILER_PROCESSES", 0, 64, 4);
  for (const std::string& name : settings.mask) {
    check_choice("OUTBOARD_OCL_MASK", name, {"float16", "float64", "subgroups", "matrix_units"});
  }
  return settings;
}

}  // namespace ocl
