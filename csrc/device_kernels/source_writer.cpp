#include "device_kernels/source_writer.h"

#include <c10/util/Exception.h>

#include <atomic>

namespace outboard {
namespace {

std::atomic<const SourceWriter*> g_writer{nullptr};

}  // namespace

void set_source_writer(std::unique_ptr<SourceWriter> writer) { g_writer = writer.release(); }

const SourceWriter& source_writer() {
  const SourceWriter* writer = g_writer.load(std::memory_order_acquire);
  TORCH_INTERNAL_ASSERT(writer != nullptr, "kernels are made before definitions are loaded");
  return *writer;
}

}  // namespace outboard
