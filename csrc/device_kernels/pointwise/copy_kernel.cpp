// Copies within a device, and the body of `cat`, which is copies. Equal dtypes are copied bitwise;
// others are converted.
#include <ATen/TensorIterator.h>
#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>

#include "transfer/copy.h"
#include <vector>
#include "device_kernels/definitions/definition.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/pointwise_launch.h"

namespace outboard {
namespace {

using at::ScalarType;

PointwiseLauncher& launcher(const char* expression) {
  PointwiseExpression copy;
  copy.results = {expression};
  copy.operands = {{"a"}};
  return *new PointwiseLauncher(copy);
}

// The integer dtype for bitwise copies, in `parts` per element; Undefined if there is none.
ScalarType integer_of(size_t itemsize, int64_t* parts) {
  *parts = 1;
  switch (itemsize) {
    case 1:
      return ScalarType::Byte;
    case 2:
      return ScalarType::Short;
    case 4:
      return ScalarType::Int;
    case 8:
      return ScalarType::Long;
    case 16:
      *parts = 2;
      return ScalarType::Long;
    default:
      return ScalarType::Undefined;
  }
}

// The same memory as elements of `dtype`, `parts` of them per element of `tensor`.
at::Tensor reinterpreted(const at::Tensor& tensor, ScalarType dtype, int64_t parts) {
  c10::DimVector sizes(tensor.sizes());
  c10::DimVector strides(tensor.strides());
  if (parts > 1) {
    for (int64_t& stride : strides) stride *= parts;
    sizes.push_back(parts);
    strides.push_back(1);
  }
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(tensor.storage()),
      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::scalarTypeToTypeMeta(dtype));
  result.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides,
                                                      tensor.storage_offset() * parts);
  return result;
}

at::TensorIterator iterator_of(const at::Tensor& destination, const at::Tensor& source) {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .resize_outputs(false)
      .add_owned_output(destination)
      .add_owned_const_input(source);
  return config.build();
}

bool enqueue(PointwiseLauncher& launcher, const at::Tensor& destination, const at::Tensor& source,
             ScalarType compute) {
  const at::TensorIterator iterator = iterator_of(destination, source);
  if (!PointwiseLauncher::takes(iterator)) return false;
  launcher.enqueue(destination.device().index(), iterator, compute, {});
  return true;
}

// Bitwise copies.
PointwiseLauncher& bitwise() {
  static PointwiseLauncher& instance = launcher("a");
  return instance;
}

bool copy(const at::Tensor& destination, const at::Tensor& source) {
  const ScalarType from = source.scalar_type();
  const ScalarType to = destination.scalar_type();
  const c10::DeviceIndex device = destination.device().index();
  const bool conjugates = destination.is_conj() != source.is_conj();
  const bool negates = destination.is_neg() != source.is_neg();
  if (from == to && !conjugates && !negates) {
    int64_t parts = 1;
    const ScalarType dtype = integer_of(source.itemsize(), &parts);
    if (dtype == ScalarType::Undefined || !computes(device, dtype)) return false;
    return enqueue(bitwise(), reinterpreted(destination, dtype, parts),
                   reinterpreted(source, dtype, parts), dtype);
  }
  if (!computes(device, from) || !computes(device, to)) return false;
  if (conjugates && !(at::isComplexType(from) && at::isComplexType(to))) return false;
  static PointwiseLauncher& converting = launcher("a");
  static PointwiseLauncher& conjugating = launcher("(T)(a.x, -a.y)");
  static PointwiseLauncher& negating = launcher("-a");
  static PointwiseLauncher& both = launcher("(T)(-a.x, a.y)");
  PointwiseLauncher& chosen =
      conjugates ? (negates ? both : conjugating) : (negates ? negating : converting);
  return enqueue(chosen, destination, source, value_dtype(from));
}

// Copies each source to the destination of equal sizes, in few launches. Destinations have one
// dtype and device and share no memory with a source. Returns false and does nothing if tensors are
// not contiguous, differ in dtype or device, or are large enough for a launch each.
bool copy_together(c10::ArrayRef<at::Tensor> destinations, c10::ArrayRef<at::Tensor> sources) {
  constexpr size_t kMostBytes = size_t{1} << 20;  // copies below are not worth a launch each
  if (destinations.size() < 2) return false;
  const ScalarType dtype = destinations[0].scalar_type();
  const c10::DeviceIndex device = destinations[0].device().index();
  int64_t parts = 1;
  const ScalarType bits = integer_of(destinations[0].itemsize(), &parts);
  if (bits == ScalarType::Undefined || !computes(device, bits)) return false;
  std::deque<PointwiseCall> calls;
  for (size_t i = 0; i < destinations.size(); ++i) {
    const at::Tensor& source = sources[i];
    if (!is_dense_on(source, device) || source.scalar_type() != dtype || source.is_conj() ||
        source.is_neg() || source.nbytes() > kMostBytes || !source.is_contiguous() ||
        !destinations[i].is_contiguous()) {
      return false;
    }
    calls.push_back({iterator_of(reinterpreted(destinations[i], bits, parts),
                                 reinterpreted(source, bits, parts)),
                     bits,
                     {}});
    if (!PointwiseLauncher::takes(calls.back().iterator)) return false;
  }
  bitwise().enqueue_all(device, calls);
  return true;
}

bool cat(torch::jit::Stack& values) {
  const std::vector<at::Tensor> tensors = values[0].toTensorVector();
  const int64_t dim = values[1].toInt();
  const at::Tensor out = values[2].toTensor();
  values.clear();
  int64_t start = 0;
  std::vector<at::Tensor> parts, sources;
  for (const at::Tensor& tensor : tensors) {
    // PyTorch's legacy rule: an empty 1-d tensor concatenates with any shape.
    if (tensor.dim() == 1 && tensor.size(0) == 0) continue;
    const int64_t count = tensor.size(dim);
    parts.push_back(out.narrow(dim, start, count));
    sources.push_back(tensor);
    start += count;
  }
  if (copy_together(parts, sources)) return true;
  for (size_t i = 0; i < parts.size(); ++i) parts[i].copy_(sources[i]);
  return true;
}

OUTBOARD_DECOMPOSITION(cat, "tensors dim out");

[[maybe_unused]] const bool g_registered = (set_device_copy(&copy), true);

}  // namespace
}  // namespace outboard
