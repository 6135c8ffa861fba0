// The kernel generator `list_norms`: norms of the tensors of a list, in two launches for as many
// tensors as fit into the arguments of a kernel.
//
// The first argument of the overload is the list, the second the order: 1, 2 or infinity. Tensors
// have one dtype.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "device_kernels/work_shape.h"

namespace outboard {
namespace {

using at::ScalarType;

constexpr int kParts = 16;  // per work-group; a part has as many elements as its work-items

enum class Order : uint8_t { kSum, kSquares, kLargest };
constexpr const char* kOrders[] = {"1", "2", "inf"};

std::optional<Order> order_of(const c10::IValue& value) {
  if (!value.isScalar()) return std::nullopt;
  const at::Scalar number = value.toScalar();
  if (number.isComplex()) return std::nullopt;
  const double order = number.toDouble();
  if (order == 1) return Order::kSum;
  if (order == 2) return Order::kSquares;
  if (order == std::numeric_limits<double>::infinity()) return Order::kLargest;
  return std::nullopt;
}

// Elements between norms: Inductor expects results to be aligned to 16 bytes.
int64_t spacing(ScalarType dtype) { return 16 / static_cast<int64_t>(c10::elementSize(dtype)); }

struct Key {
  Order order;
  ScalarType dtype;
  c10::DeviceIndex device;
  int calls;
  bool operator==(const Key& other) const = default;
};

struct Kernels {
  ProgramKernels kernel;
  uint64_t elements;  // per work-group
};

Kernels make_kernels(const Key& key) {
  const WorkShape shape = work_shape(key.device);
  const ScalarType value = value_dtype(key.dtype);
  const int width = shape.width(static_cast<int>(c10::elementSize(value)));
  const int chunk = shape.elements(width);
  std::string source = write_source({"list_norms",
                                     {{"order", kOrders[static_cast<int>(key.order)]},
                                      {"dtype", key.dtype},
                                      {"calls", key.calls},
                                      {"width", width},
                                      {"chunk", chunk},
                                      {"parts", kParts},
                                      {"local", shape.local},
                                      {"spacing", spacing(key.dtype)}}});
  return {{key.device, std::move(source), literal_options(value)},
          static_cast<uint64_t>(chunk) * static_cast<uint64_t>(shape.local * kParts)};
}

class ListNorms final : public DefinedKernel {
 public:
  ListNorms(const Definition& definition, const c10::FunctionSchema& schema)
      : DefinedKernel(definition, schema), dtypes_(definition.dtypes()) {}

  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override {
    const std::vector<at::Tensor> tensors = overload_.read(*stack, 0).toTensorVector();
    const auto order = order_of(overload_.read(*stack, 1));
    if (!order.has_value() || tensors.empty()) return false;
    const ScalarType dtype = tensors[0].scalar_type();
    if ((dtypes_ & dtype_bit(dtype)) == 0 || !computes(device, dtype)) return false;
    for (const at::Tensor& tensor : tensors) {
      if (!is_dense_on(tensor, device) || tensor.scalar_type() != dtype ||
          tensor.numel() >= (int64_t{1} << 31)) {
        return false;
      }
      // The CPU kernel raises.
      if (tensor.numel() == 0 && *order == Order::kLargest) return false;
    }
    const at::Tensor out =
        at::empty({static_cast<int64_t>(tensors.size()), spacing(dtype)}, tensors[0].options());
    const size_t most = most_calls(device, /*pointers=*/1, /*bytes=*/0, /*common=*/2);
    for (size_t begin = 0; begin < tensors.size(); begin += most) {
      const size_t count = std::min(most, tensors.size() - begin);
      enqueue({*order, dtype, device, static_cast<int>(std::min(most, std::bit_ceil(count)))},
              {tensors.data() + begin, count}, out, begin);
    }
    stack->emplace_back(c10::List<at::Tensor>(out.select(1, 0).unbind()));
    return true;
  }

 private:
  void enqueue(const Key& key, c10::ArrayRef<at::Tensor> tensors, const at::Tensor& out,
               size_t begin) {
    const Kernels& kernels = kernels_.find(key, [&] { return make_kernels(key); });
    std::vector<at::Tensor> dense;
    CallTable table(static_cast<size_t>(key.calls));
    LaunchArguments arguments;
    for (const at::Tensor& tensor : tensors) {
      dense.push_back(tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous());
      // Any valid address, if there are no elements.
      const at::Tensor& any = tensor.numel() == 0 ? out : dense.back();
      arguments.address(any.const_data_ptr());
      table.add(static_cast<uint64_t>(tensor.numel()), kernels.elements);
    }
    for (size_t c = tensors.size(); c < static_cast<size_t>(key.calls); ++c) {
      arguments.address(out.const_data_ptr());
    }
    const auto options = out.options().dtype(value_dtype(key.dtype));
    const at::Tensor partial = at::empty({static_cast<int64_t>(table.groups()) + 1}, options);
    arguments.address(partial.mutable_data_ptr());
    table.add_to(arguments);
    const auto local = static_cast<uint64_t>(work_shape(key.device).local);
    if (table.groups() > 0) {
      kernels.kernel.launch("partial_norms", table.groups() * local, local, arguments);
    }
    LaunchArguments whole;
    whole.address(partial.const_data_ptr());
    whole.address(static_cast<char*>(out.mutable_data_ptr()) +
                  begin * out.stride(0) * out.itemsize());
    table.add_to(whole);
    kernels.kernel.launch("norms", tensors.size() * local, local, whole);
  }

  const uint64_t dtypes_;
  KernelTable<Key, Kernels> kernels_;
};

C10_REGISTER_CLASS(DefinitionKinds, list_norms, ListNorms)

}  // namespace
}  // namespace outboard
