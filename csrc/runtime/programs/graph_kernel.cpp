#include "runtime/programs/graph_kernel.h"

#include <algorithm>
#include <string_view>

#include "runtime/streams/stream.h"

namespace outboard {
namespace {

constexpr uint64_t kMaxGroups = 65535;  // which loop over further pieces

DeviceAssert& index_assert_of(c10::DeviceIndex device) {
  return DeviceAssert::interned(device, DeviceAssert::Kind::kIndexError,
                                "index out of range in a compiled graph");
}

}  // namespace

Grid WorkDivision::grid(uint64_t pieces, uint64_t cost) const {
  switch (cut) {
    case Cut::kChunks: {
      const uint64_t least = std::max<uint64_t>(grain, 1);
      const uint64_t chunks = std::min({pieces, (cost + least - 1) / least, limit});
      return Grid::linear(std::max<uint64_t>(chunks, 1), 1);
    }
    case Cut::kItems:
      return Grid::linear(pieces, local);
    default:
      return Grid::linear(std::min(pieces, kMaxGroups) * local, local);
  }
}

void GraphArguments::tensor(c10::DeviceIndex device, const void* data) {
  if (device_ < 0) device_ = device;
  if (data != nullptr) {
    launch_.address(data);
  } else {  // it is not read, but the parameter needs some memory
    launch_.address(index_assert_of(device).address());
  }
}

void GraphArguments::index_assert() {
  asserts_.push_back(&index_assert_of(device_));
  launch_.address(asserts_.back()->address());
}

void GraphArguments::message_assert(const std::string& message) {
  asserts_.push_back(&DeviceAssert::interned(
      device_, DeviceAssert::Kind::kRuntimeError,
      message.empty() ? "an assertion of a compiled graph failed" : std::string_view(message)));
  launch_.address(asserts_.back()->address());
}

void GraphKernel::launch(const GraphArguments& arguments, uint64_t pieces, uint64_t cost) {
  if (pieces == 0) return;
  StreamState& stream = current_stream_state(arguments.device_);
  outboard::launch(stream, find(arguments.device_), division_.grid(pieces, cost),
                   arguments.launch_);
  expect_asserts(stream, arguments.asserts_);
}

Kernel& GraphKernel::find(c10::DeviceIndex device) {
  TORCH_CHECK_VALUE(device >= 0, "a kernel of a graph needs a tensor of the device");
  std::atomic<Kernel*>& known = kernels_.at(static_cast<size_t>(device));
  if (Kernel* kernel = known.load(std::memory_order_acquire)) return *kernel;
  Kernel& kernel = find_kernel(device, program_->source, name_);
  known.store(&kernel, std::memory_order_release);
  return kernel;
}

}  // namespace outboard
