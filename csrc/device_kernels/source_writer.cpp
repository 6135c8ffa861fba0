#include "device_kernels/source_writer.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <atomic>

#include "device_kernels/kernel_types.h"

namespace outboard {
namespace {

std::atomic<const SourceWriter*> g_writer{nullptr};

}  // namespace

int PointwiseSource::width() const {
  size_t largest = c10::elementSize(compute);
  bool is_complex = at::isComplexType(compute);
  const auto see = [&](at::ScalarType dtype) {
    largest = std::max(largest, c10::elementSize(value_dtype(dtype)));
    is_complex = is_complex || at::isComplexType(dtype);
  };
  for (const auto& output : outputs) see(output.dtype);
  for (const auto& input : inputs) see(input.dtype);
  return is_complex || scalar ? 1 : shape.width(static_cast<int>(largest));
}

int ReductionSource::width() const {
  if (at::isComplexType(compute) || at::isComplexType(input)) return 1;
  return shape.width(static_cast<int>(
      std::max({c10::elementSize(compute), c10::elementSize(value_dtype(input)), size_t{4}})));
}

void set_source_writer(std::unique_ptr<SourceWriter> writer) { g_writer = writer.release(); }

const SourceWriter& source_writer() {
  const SourceWriter* writer = g_writer.load(std::memory_order_acquire);
  TORCH_INTERNAL_ASSERT(writer != nullptr, "kernels are made before definitions are loaded");
  return *writer;
}

}  // namespace outboard
