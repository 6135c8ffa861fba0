#include "device_kernels/pointwise/pointwise_launch.h"

#include <ATen/TensorIterator.h>
#include <c10/core/DynamicCast.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "device_kernels/work_shape.h"

namespace outboard {

using at::ScalarType;

namespace {

constexpr int kMostOperands = 15;     // of a Key
constexpr int kMostWideOperands = 7;  // whose 64-bit strides fit into the arguments of a kernel
constexpr int kMostCrossed = 3;       // whose tiles fit into local memory

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

// The dimension along which some inputs are contiguous while all outputs are contiguous along the
// first; 0 if there is none, or too little of it for tiles.
int crossing(const at::TensorIteratorBase& iterator) {
  constexpr int64_t kLeast = 8;
  if (iterator.ndim() < 2 || iterator.shape()[0] < kLeast) return 0;
  int across = 0;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) continue;
    const auto strides = iterator.strides(i);
    const int64_t next = iterator.element_size(i);
    if (i < iterator.noutputs()) {
      if (strides[0] != next) return 0;
      continue;
    }
    if (strides[0] == next || strides[0] == 0) continue;
    for (int d = 1; d < iterator.ndim() && across == 0; ++d) {
      if (strides[d] == next && iterator.shape()[d] >= kLeast) across = d;
    }
    if (across == 0) return 0;
  }
  return across;
}

template <class Index>
void add_layout(LaunchArguments& arguments, const at::TensorIteratorBase& iterator) {
  c10::SmallVector<int, kMostOperands> pointers;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (!is_value(iterator, i)) pointers.push_back(i);
  }
  c10::SmallVector<Index, kPointwiseDimensions * 5> layout(
      kPointwiseDimensions * (1 + pointers.size()), 0);
  layout[0] = 1;  // for a result with one element
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

std::optional<int> PointwiseLauncher::integer_divisor(const at::TensorIteratorBase& iterator,
                                                      ScalarType compute) const {
  if (!expression_.divisor.has_value() || !at::isIntegralType(compute, /*includeBool=*/false)) {
    return std::nullopt;
  }
  return iterator.noutputs() + static_cast<int>(*expression_.divisor);
}

bool PointwiseLauncher::divides_by_zero(const at::TensorIteratorBase& iterator,
                                        ScalarType compute) const {
  const std::optional<int> divisor = integer_divisor(iterator, compute);
  return divisor.has_value() && is_value(iterator, *divisor) &&
         c10::fetch_and_cast<int64_t>(iterator.dtype(*divisor), iterator.data_ptr(*divisor)) == 0;
}

bool PointwiseLauncher::checks_divisor(const at::TensorIteratorBase& iterator,
                                       ScalarType compute) const {
  const std::optional<int> divisor = integer_divisor(iterator, compute);
  return divisor.has_value() && !is_value(iterator, *divisor);
}

DeviceAssert& PointwiseLauncher::division_assert(c10::DeviceIndex device) {
  return *division_asserts_.find(device, [&] {
    return &DeviceAssert::make(
        device, DeviceAssert::Kind::kRuntimeError,
        c10::str("ZeroDivisionError: integers were divided by zero in ", expression_.operation));
  });
}

PointwiseSource PointwiseLauncher::make_source(c10::DeviceIndex device,
                                               const at::TensorIteratorBase& iterator,
                                               ScalarType compute, bool wide) const {
  PointwiseSource source;
  source.compute = compute;
  source.shape = work_shape(device);
  source.wide_index = wide;
  source.scalar = expression_.scalar;
  source.scalars = expression_.scalars;
  source.once = expression_.once;
  source.condition = expression_.condition;
  if (checks_divisor(iterator, compute)) source.divisor = expression_.divisor;
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
  return source;
}

PointwiseLauncher::Kernels PointwiseLauncher::make_kernels(c10::DeviceIndex device,
                                                           const at::TensorIteratorBase& iterator,
                                                           ScalarType compute, bool wide) const {
  const PointwiseSource source = make_source(device, iterator, compute, wide);
  const std::string program = source_writer().pointwise(source);
  const char* options = literal_options(compute);
  return {&find_kernel(device, program, "contiguous", options),
          &find_kernel(device, program, "strided", options), source.elements()};
}

Kernel* PointwiseLauncher::make_crossed(c10::DeviceIndex device,
                                        const at::TensorIteratorBase& iterator, ScalarType compute,
                                        bool wide) const {
  PointwiseSource source = make_source(device, iterator, compute, wide);
  const auto in_memory = std::count_if(source.inputs.begin(), source.inputs.end(),
                                       [](const auto& input) { return !input.by_value; });
  if (source.width() == 1 || in_memory > kMostCrossed || !source.once.empty() ||
      source.divisor.has_value() || !source.condition.empty()) {
    return nullptr;
  }
  source.crossed = true;
  return &find_kernel(device, source_writer().pointwise(source), "crossed",
                      literal_options(compute));
}

PointwiseLauncher::Key PointwiseLauncher::key_of(c10::DeviceIndex device,
                                                 const at::TensorIteratorBase& iterator,
                                                 ScalarType compute) const {
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
  key.wide = !iterator.can_use_32bit_indexing();
  return key;
}

void PointwiseLauncher::enqueue(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                                ScalarType compute, c10::ArrayRef<at::Scalar> scalars,
                                const void* flag) {
  if (iterator.numel() == 0) return;
  const Key key = key_of(device, iterator, compute);
  const bool wide = key.wide;
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
  const int across = work_shape(device).chunk == 0 ? crossing(iterator) : 0;
  Kernel* const crossed = across == 0 ? nullptr : crossed_.find(key, [&] {
    return make_crossed(device, iterator, compute, wide);
  });
  if (crossed != nullptr) arguments.value(static_cast<uint32_t>(across));
  const auto total = static_cast<uint64_t>(iterator.numel());
  wide ? arguments.value(total) : arguments.value(static_cast<uint32_t>(total));
  const bool checks = checks_divisor(iterator, compute);
  if (checks) arguments.address(division_assert(device).address());
  if (!expression_.condition.empty()) arguments.address(flag);
  const auto local = static_cast<uint64_t>(work_shape(device).local);
  if (crossed != nullptr) {
    uint64_t groups = 1;
    for (int d = 0; d < iterator.ndim(); ++d) {
      const auto size = static_cast<uint64_t>(iterator.shape()[d]);
      groups *= d == 0 || d == across ? divide_up(size, kCrossedTile) : size;
    }
    launch(current_stream_state(device), *crossed, Grid::linear(groups * local, local), arguments);
    return;
  }
  launch(current_stream_state(device), contiguous ? *kernels.contiguous : *kernels.strided,
         Grid::linear(divide_up(total, kernels.elements), local), arguments);
  if (checks) expect_assert(current_stream_state(device), division_assert(device));
}

}  // namespace outboard
