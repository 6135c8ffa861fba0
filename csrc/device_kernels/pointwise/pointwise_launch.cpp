#include "device_kernels/pointwise/pointwise_launch.h"

#include <ATen/TensorIterator.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "device_kernels/kernel_types.h"
#include "device_kernels/work_shape.h"

namespace outboard {

using at::ScalarType;

namespace {

constexpr int kMostOperands = 15;     // of a Key
constexpr int kMostWideOperands = 7;  // whose 64-bit strides fit into the arguments of a kernel

// Whether operand `i` reaches the kernel as an argument.
bool is_value(const at::TensorIteratorBase& iterator, int i) {
  return i >= iterator.noutputs() && iterator.is_cpu_scalar(i);
}

bool is_contiguous(const at::TensorIteratorBase& iterator, const PointwiseExpression& expression) {
  if (iterator.ndim() > 1) return false;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    const int input = i - iterator.noutputs();
    if (input >= 0 && expression.operands[input].uniform) continue;
    if (iterator.ndim() == 1 && !is_value(iterator, i) &&
        iterator.strides(i)[0] != iterator.element_size(i)) {
      return false;
    }
  }
  return true;
}

template <class Index>
void add_layout(LaunchArguments& arguments, const at::TensorIteratorBase& iterator) {
  c10::SmallVector<int, kMostOperands> pointers;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (!is_value(iterator, i)) pointers.push_back(i);
  }
  c10::SmallVector<Index, kPointwiseDimensions * 5> layout(
      kPointwiseDimensions * (1 + pointers.size()), 0);
  layout[0] = 1;  // of a result with one element
  for (int d = 0; d < iterator.ndim(); ++d) {
    layout[d] = static_cast<Index>(iterator.shape()[d]);
    for (size_t k = 0; k < pointers.size(); ++k) {
      layout[kPointwiseDimensions + d * pointers.size() + k] =
          static_cast<Index>(iterator.strides(pointers[k])[d] / iterator.element_size(pointers[k]));
    }
  }
  arguments.bytes(layout.data(), layout.size() * sizeof(Index));
  arguments.value(static_cast<uint32_t>(std::max(iterator.ndim(), 1)));
}

}  // namespace

bool PointwiseLauncher::takes(const at::TensorIteratorBase& iterator) {
  return iterator.ndim() <= kPointwiseDimensions && iterator.ntensors() <= kMostOperands &&
         (iterator.ntensors() <= kMostWideOperands || iterator.can_use_32bit_indexing());
}

PointwiseLauncher::Kernels PointwiseLauncher::make_kernels(c10::DeviceIndex device,
                                                           const at::TensorIteratorBase& iterator,
                                                           ScalarType compute, bool wide) const {
  PointwiseSource source;
  source.compute = compute;
  source.shape = work_shape(device);
  source.wide_index = wide;
  source.scalar = expression_.scalar;
  source.scalars = expression_.scalars;
  source.once = expression_.once;
  for (int i = 0; i < iterator.noutputs(); ++i) {
    source.outputs.push_back({iterator.dtype(i), expression_.kind, expression_.results.at(i)});
  }
  for (int i = 0; i < iterator.ninputs(); ++i) {
    const auto& operand = expression_.operands.at(i);
    const bool by_value = is_value(iterator, iterator.noutputs() + i);
    const ScalarType passed = operand.mask ? ScalarType::Bool : compute;
    source.inputs.push_back({operand.name, by_value ? passed : iterator.input_dtype(i),
                             operand.mask, by_value, operand.uniform});
  }
  const std::string text = source.text();
  const char* options = literal_options(compute);
  return {&find_kernel(device, text, "contiguous", options),
          &find_kernel(device, text, "strided", options), source.elements()};
}

void PointwiseLauncher::enqueue(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                                ScalarType compute, c10::ArrayRef<at::Scalar> scalars) {
  if (iterator.numel() == 0) return;
  const bool wide = !iterator.can_use_32bit_indexing();
  Key key;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) {
      key.values |= uint32_t{1} << i;  // converted before it is passed
    } else {
      key.dtypes[i] = static_cast<uint8_t>(iterator.dtype(i));
    }
  }
  key.dtypes.back() = static_cast<uint8_t>(compute);
  key.device = device;
  key.wide = wide;
  const Kernels& kernels =
      kernels_.find(key, [&] { return make_kernels(device, iterator, compute, wide); });
  LaunchArguments arguments;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) {
      const bool mask = expression_.operands[i - iterator.noutputs()].mask;
      add_element(arguments, iterator.data_ptr(i), iterator.dtype(i),
                  mask ? ScalarType::Bool : compute);
    } else {
      arguments.address(iterator.data_ptr(i));
    }
  }
  for (const at::Scalar& scalar : scalars) add_scalar(arguments, scalar, compute);
  const bool contiguous = is_contiguous(iterator, expression_);
  if (!contiguous) {
    wide ? add_layout<uint64_t>(arguments, iterator) : add_layout<uint32_t>(arguments, iterator);
  }
  const auto total = static_cast<uint64_t>(iterator.numel());
  wide ? arguments.value(total) : arguments.value(static_cast<uint32_t>(total));
  const auto elements = static_cast<uint64_t>(kernels.elements);
  const uint64_t items = (total + elements - 1) / elements;
  launch(current_stream_state(device), contiguous ? *kernels.contiguous : *kernels.strided,
         Grid::linear(items, work_shape(device).local), arguments);
}

}  // namespace outboard
