#include "broken.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace broken {

ob_driver base;

static Fault* first = nullptr;
static thread_local std::string message;
static thread_local bool message_is_ours = false;

Fault::Fault(const char* name, void (*install)(ob_driver&))
    : name(name), install(install), next(first) {
  first = this;
}

ob_status fail(ob_status status, const char* words) {
  message = words;
  message_is_ours = true;
  return status;
}

static const char* last_error(void*) {
  if (!message_is_ours) return base.last_error(base.context);
  message_is_ours = false;
  return message.c_str();
}

}  // namespace broken

extern "C" __attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static ob_driver table;
  const char* wanted = std::getenv("BROKEN_FAULT");
  void* library = dlopen(std::getenv("BROKEN_BASE"), RTLD_NOW);
  if (library == nullptr || wanted == nullptr) return nullptr;
  const ob_driver* found =
      reinterpret_cast<ob_driver_entry_point>(dlsym(library, OB_DRIVER_ENTRY_POINT))();
  std::memcpy(&broken::base, found, std::min(found->struct_size, sizeof(ob_driver)));
  table = broken::base;
  table.struct_size = sizeof table;
  table.name = "broken";
  table.last_error = broken::last_error;
  for (broken::Fault* fault = broken::first; fault != nullptr; fault = fault->next) {
    if (std::strcmp(fault->name, wanted) == 0) {
      fault->install(table);
      return &table;
    }
  }
  return std::strcmp(wanted, "none") == 0 ? &table : nullptr;
}
