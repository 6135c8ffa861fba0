#include "device_kernels/source_writer.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace outboard {
namespace {

std::atomic<const std::function<std::string(const SourceFields&)>*> g_writer{nullptr};

}  // namespace

void set_source_writer(std::function<std::string(const SourceFields&)> writer) {
  g_writer = new std::function(std::move(writer));
}

std::string write_source(const SourceFields& fields) {
  const auto* writer = g_writer.load(std::memory_order_acquire);
  TORCH_INTERNAL_ASSERT(writer != nullptr, "kernels are made before definitions are loaded");
  return (*writer)(fields);
}

}  // namespace outboard
