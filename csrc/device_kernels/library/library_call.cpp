#include "device_kernels/library/library_call.h"

#include <ATen/Context.h>

#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/programs/device_assert.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

using at::ScalarType;

// True if float32 factors may be rounded. PyTorch raises if the precision of one of its own
// backends differs from the global one; this device then has no setting.
bool may_round_factors(const at::Context& context) {
  try {
    return context.float32MatmulPrecision() != at::Float32MatmulPrecision::HIGHEST;
  } catch (const c10::Error&) {
    return false;
  }
}

}  // namespace

bool library_computes(c10::DeviceIndex device, ScalarType dtype) {
  return (device_properties(device).dtypes & contract_dtype(dtype)) != 0;
}

uint32_t library_accumulation(ScalarType dtype) {
  const bool short_float = at::isFloatingType(dtype) && c10::elementSize(dtype) < 4;
  return contract_dtype(short_float ? ScalarType::Float : dtype);
}

uint32_t library_flags(ScalarType dtype) {
  const at::Context& context = at::globalContext();
  uint32_t flags = 0;
  if (context.deterministicAlgorithms()) flags |= OB_LIBRARY_DETERMINISTIC;
  if (dtype == ScalarType::Float && may_round_factors(context)) {
    flags |= OB_LIBRARY_REDUCED_PRECISION;
  }
  return flags;
}

ob_tensor library_tensor(const void* data, ScalarType dtype, at::IntArrayRef sizes,
                         at::IntArrayRef strides) {
  ob_tensor result = {};
  TORCH_INTERNAL_ASSERT(sizes.size() <= std::size(result.sizes));
  result.struct_size = sizeof(result);
  result.data = reinterpret_cast<ob_address>(data);
  result.dtype = contract_dtype(dtype);
  result.dimensions = static_cast<uint32_t>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    result.sizes[d] = sizes[d];
    result.strides[d] = sizes[d] == 1 ? 0 : strides[d];
  }
  return result;
}

ob_tensor library_tensor(const at::Tensor& tensor, bool written) {
  return library_tensor(written ? tensor.mutable_data_ptr() : tensor.const_data_ptr(),
                        tensor.scalar_type(), tensor.sizes(), tensor.strides());
}

bool took_query(ob_status status, const char* name) {
  if (status == OB_UNSUPPORTED) return false;
  check_status(status, name);
  return true;
}

bool took_call(ob_status status, const char* name, c10::DeviceIndex device) {
  if (status == OB_UNSUPPORTED) return false;
  StreamState& stream = current_stream_state(device);
  stream.mark_submitted();  // a failing call may have enqueued some work
  check_status(status, name);
  if (C10_UNLIKELY(launches_block()) && !stream.capturing.load()) synchronize_stream(stream);
  return true;
}

}  // namespace outboard
