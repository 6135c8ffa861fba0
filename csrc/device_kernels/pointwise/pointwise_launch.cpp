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
// Elements of a tile along each dimension, in the kernel for crossed inputs.
constexpr int kCrossedTile = 32;

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
    return &DeviceAssert::interned(
        device, DeviceAssert::Kind::kRuntimeError,
        c10::str("ZeroDivisionError: integers were divided by zero in ", expression_.operation));
  });
}

int PointwiseLauncher::width(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                             ScalarType compute) const {
  size_t largest = c10::elementSize(compute);
  bool single = expression_.scalar || at::isComplexType(compute);
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) continue;
    largest = std::max(largest, c10::elementSize(value_dtype(iterator.dtype(i))));
    single = single || at::isComplexType(iterator.dtype(i));
  }
  return single ? 1 : work_shape(device).width(static_cast<int>(largest));
}

PointwiseLauncher::Kernels PointwiseLauncher::make_kernels(const ManyKey& key,
                                                           const at::TensorIteratorBase& iterator,
                                                           ScalarType compute, bool crossed) const {
  using Value = SourceFields::Value;
  constexpr const char* kResults[] = {"value", "mask", "real"};
  const c10::DeviceIndex device = key.key.device;
  std::vector<SourceFields> outputs, inputs;
  for (int i = 0; i < iterator.noutputs(); ++i) {
    const bool in_place = key.calls > 0 && key.in_place[i] >= 0;
    outputs.push_back({"PointwiseOutput",
                       {{"dtype", iterator.dtype(i)},
                        {"result", kResults[static_cast<int>(expression_.kind)]},
                        {"expression", expression_.results.at(i)},
                        {"in_place", in_place ? Value(int64_t{key.in_place[i]}) : Value()}}});
  }
  for (int i = 0; i < iterator.ninputs(); ++i) {
    const auto& operand = expression_.operands.at(i);
    const bool by_value = is_value(iterator, iterator.noutputs() + i);
    const ScalarType passed = operand.mask ? ScalarType::Bool : compute;
    inputs.push_back({"PointwiseInput",
                      {{"name", operand.name},
                       {"dtype", by_value ? passed : iterator.input_dtype(i)},
                       {"mask", operand.mask},
                       {"by_value", by_value},
                       {"uniform", operand.uniform},
                       {"common", operand.common},
                       {"single", ((key.single >> i) & 1) != 0}}});
  }
  const WorkShape shape = work_shape(device);
  const int vector = width(device, iterator, compute), elements = shape.elements(vector);
  const int parts = shape.chunk == 0 ? 4 : 1;
  const bool checks = checks_divisor(iterator, compute);
  std::string source = write_source(
      {"pointwise",
       {{"outputs", outputs},
        {"inputs", inputs},
        {"scalars", expression_.scalars},
        {"listed_scalars", expression_.listed_scalars},
        {"once", expression_.once},
        {"condition", checks ? expression_.operands[*expression_.divisor].name + " == C(0)"
                             : expression_.condition},
        {"flag", checks ? "int" : "float"},
        {"compute", compute},
        {"wide_index", key.key.wide},
        {"crossed", crossed},
        {"calls", key.calls},
        {"width", vector},
        {"elements", elements},
        {"parts", parts},
        {"adjacent", shape.chunk == 0},
        {"dimensions", kPointwiseDimensions},
        {"tile", kCrossedTile}}});
  return {{device, std::move(source), literal_options(compute)}, elements, parts};
}

bool PointwiseLauncher::can_cross(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                                  ScalarType compute) const {
  int in_memory = 0;
  for (int i = iterator.noutputs(); i < iterator.ntensors(); ++i) {
    in_memory += !is_value(iterator, i);
  }
  return in_memory <= kMostCrossed && width(device, iterator, compute) > 1 &&
         expression_.once.empty() && expression_.condition.empty() &&
         !checks_divisor(iterator, compute);
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
  int across = work_shape(device).chunk == 0 ? crossing(iterator) : 0;
  if (across != 0 && !can_cross(device, iterator, compute)) across = 0;
  if (across != 0) arguments.value(static_cast<uint32_t>(across));
  const auto total = static_cast<uint64_t>(iterator.numel());
  wide ? arguments.value(total) : arguments.value(static_cast<uint32_t>(total));
  const bool checks = checks_divisor(iterator, compute);
  if (checks) arguments.address(division_assert(device).address());
  if (!expression_.condition.empty()) arguments.address(flag);
  const auto local = static_cast<uint64_t>(work_shape(device).local);
  if (across != 0) {
    const Kernels& crossed =
        crossed_.find(key, [&] { return make_kernels({key}, iterator, compute, true); });
    uint64_t groups = 1;
    for (int d = 0; d < iterator.ndim(); ++d) {
      const auto size = static_cast<uint64_t>(iterator.shape()[d]);
      groups *= d == 0 || d == across ? divide_up(size, kCrossedTile) : size;
    }
    crossed.kernel.launch("crossed", groups * local, local, arguments);
    return;
  }
  const Kernels& kernels =
      kernels_.find(key, [&] { return make_kernels({key}, iterator, compute); });
  kernels.kernel.launch(contiguous ? "contiguous" : "strided", divide_up(total, kernels.elements),
                        local, arguments);
  if (checks) expect_assert(current_stream_state(device), division_assert(device));
}

}  // namespace outboard
