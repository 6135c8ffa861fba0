// The kernel generator `reduction`: a state per result starts as an identity, accumulates elements,
// merges with other states and is converted to results.
#include <ATen/TensorIterator.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <c10/util/SmallVector.h>

#include <bitset>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"

namespace outboard {
namespace {

using at::ScalarType;

// Limits of the reduced and of the other dimensions, each after collapsing.
constexpr int kReductionDimensions = 8;
// Vectors per work-item in the kernel `across`.
constexpr int kReductionColumns = 8;

// Compute dtypes: a few types, whose indices and masks are as wide as values.
ScalarType compute_dtype(ScalarType dtype) {
  if (at::isFloatingType(dtype) || at::isComplexType(dtype)) return value_dtype(dtype);
  return dtype == ScalarType::Long ? dtype : ScalarType::Int;
}

// The struct ob_layout of the kernels. `kept`: not reduced.
struct Layout {
  using Index = uint64_t;
  Index reduced_size[kReductionDimensions] = {1};
  Index reduced_stride[kReductionDimensions] = {};
  Index kept_size[kReductionDimensions] = {1};
  Index kept_stride[kReductionDimensions] = {};
  Index output[2][kReductionDimensions] = {};
  Index reduced_dimensions = 0;
  Index kept_dimensions = 0;
  Index n = 1;
  Index results = 1;
  Index parts = 1;
  Index part_size = 0;
};

bool describe(Layout& layout, const at::TensorIteratorBase& iterator) {
  const int outputs = iterator.noutputs();
  const int input = outputs;
  for (int d = 0; d < iterator.ndim(); ++d) {
    const auto size = static_cast<uint64_t>(iterator.shape()[d]);
    const auto stride =
        static_cast<uint64_t>(iterator.strides(input)[d] / iterator.element_size(input));
    if (iterator.strides(0)[d] == 0) {
      const uint64_t at = layout.reduced_dimensions++;
      if (at == kReductionDimensions) return false;
      layout.reduced_size[at] = size;
      layout.reduced_stride[at] = stride;
      layout.n *= size;
    } else {
      const uint64_t at = layout.kept_dimensions++;
      if (at == kReductionDimensions) return false;
      layout.kept_size[at] = size;
      layout.kept_stride[at] = stride;
      layout.results *= size;
      for (int k = 0; k < outputs; ++k) {
        layout.output[k][at] =
            static_cast<uint64_t>(iterator.strides(k)[d] / iterator.element_size(k));
      }
    }
  }
  return true;
}

// Work-items that read the adjacent vectors of a tile, as in the kernel across_group.
constexpr uint64_t kTileLanes = 32;

uint64_t tile_lanes(const Layout& layout, uint64_t local, uint64_t width) {
  const uint64_t most = layout.n < 64 ? local : std::min(kTileLanes, local);
  uint64_t lanes = 1;
  while (lanes < most && lanes * width < layout.kept_size[0]) lanes *= 2;
  return std::min(lanes, most);
}

}  // namespace

class ReductionKernel final : public DefinedKernel {
 public:
  ReductionKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Types : uint8_t { kSame, kPromote, kFloat, kTest };
  struct Call {
    c10::DeviceIndex device;
    at::Tensor input;
    std::bitset<at::dim_bitset_size> reduced;
    bool keepdim = false;
    ScalarType compute = ScalarType::Undefined;
    c10::SmallVector<ScalarType, 2> results;
    c10::SmallVector<at::Scalar, 2> scalars;
  };
  // Distinguishes kernels: the device, 64-bit indices, dtypes of the input, values and results.
  using Key = std::tuple<c10::DeviceIndex, bool, ScalarType, ScalarType, ScalarType>;
  struct Kernels {
    ProgramKernels kernel;
    int width;  // elements of a vector; 1 for complex values
  };

  bool choose_dimensions(Call& call, const torch::jit::Stack& stack) const;
  bool choose_types(Call& call, const torch::jit::Stack& stack) const;
  bool read_scalars(Call& call, const torch::jit::Stack& stack) const;
  at::TensorIterator iterator_of(const Call& call, c10::ArrayRef<at::Tensor> results) const;
  const Kernels& kernels(const Call& call, bool wide);
  bool enqueue(const Call& call, const at::TensorIteratorBase& iterator);

  decltype(SourceFields::values) description_;  // fields that kernels contain
  size_t state_bytes_;                          // upper bound for a scalar state
  std::vector<bool> indices_;                   // per result
  const Types types_;
  std::vector<int> scalars_;                   // arguments
  std::vector<std::optional<double>> absent_;  // per scalar
  int dim_, keepdim_, dtype_;                  // arguments, -1 where the overload has none
  int exceeds_ = -1;                           // of scalars_
  bool ordered_;
  bool all_if_empty_;
  bool widens_;
  std::optional<double> empty_;
  uint64_t dtypes_;
  KernelTable<Key, Kernels> kernels_;
};

ReductionKernel::ReductionKernel(const Definition& definition, const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      types_(static_cast<Types>(definition.one_of("types", {"same", "promote", "float", "test"}))),
      dim_(overload_.find("dim")),
      keepdim_(overload_.find("keepdim")),
      dtype_(overload_.find("dtype")),
      ordered_(definition.flag("ordered")),
      all_if_empty_(definition.flag("all_if_empty")),
      widens_(definition.flag("widens")),
      empty_(definition.real("empty")),
      dtypes_(definition.dtypes()) {
  for (const char* statements : {"initial", "step", "merge"}) {
    description_.emplace_back(statements, definition.string(statements));
  }
  const std::vector<std::string>& state = definition.strings("state");
  state_bytes_ = 16 * state.size();
  const auto& indices = definition.get<Definition::Integers>("indices");
  const std::vector<std::string>& results = definition.strings("results");
  const size_t count = results.size();
  for (size_t k = 0; k < count; ++k) {
    indices_.push_back(k < indices.size() && indices[k] != 0);
  }
  TORCH_CHECK_VALUE(count == overload_.result_count() && count >= 1 && count <= 2, "there are ",
                    count, "; one or two are possible, as many as the overload returns");
  const std::vector<std::string>& names = definition.strings("scalars");
  for (const std::string& name : names) scalars_.push_back(overload_.index(name));
  definition.check_names("absent", names);
  const auto& absent = definition.get<Definition::NamedReals>("absent");
  for (const std::string& name : names) {
    const auto value = absent.find(name);
    absent_.push_back(value != absent.end() ? std::optional(value->second) : std::nullopt);
  }
  if (const std::string& name = definition.string("exceeds"); !name.empty()) {
    exceeds_ = static_cast<int>(Definition::index_of(names, name));
  }
  description_.emplace_back("state", state);
  description_.emplace_back("results", results);
  description_.emplace_back("indices", indices_);
  description_.emplace_back("parameters", names);
}

bool ReductionKernel::choose_dimensions(Call& call, const torch::jit::Stack& stack) const {
  if (keepdim_ >= 0) call.keepdim = overload_.read(stack, keepdim_).toBool();
  const auto dimensions = static_cast<size_t>(call.input.dim());
  if (dimensions > at::dim_bitset_size) return false;
  std::optional<at::DimVector> listed;
  if (dim_ >= 0 && !overload_.read(stack, dim_).isNone()) {
    const c10::IValue& value = overload_.read(stack, dim_);
    if (!value.isInt() && !value.isIntList()) return false;
    listed = value.isInt() ? at::DimVector{value.toInt()} : value.toDimVector();
    if (listed->empty() && all_if_empty_) listed.reset();
  }
  call.reduced =
      at::dim_list_to_bitset(listed ? at::OptionalIntArrayRef(*listed) : std::nullopt, dimensions);
  if (dimensions == 0) call.reduced.reset();
  return true;
}

bool ReductionKernel::choose_types(Call& call, const torch::jit::Stack& stack) const {
  const ScalarType input = call.input.scalar_type();
  if ((dtypes_ & dtype_bit(input)) == 0 || !computes(call.device, input)) {
    return false;
  }
  const at::Tensor& given = overload_.given_output(stack);
  ScalarType computed = input;
  if (dtype_ >= 0 && !overload_.read(stack, dtype_).isNone()) {
    computed = overload_.read(stack, dtype_).toScalarType();
  } else if (types_ == Types::kPromote && given.defined() && dim_ >= 0) {
    computed = given.scalar_type();
  } else if (types_ == Types::kPromote && at::isIntegralType(input, /*includeBool=*/true)) {
    computed = ScalarType::Long;
  }
  if (widens_ && c10::promoteTypes(input, computed) != computed) return false;
  // Casts to bool, and from complex to real values, are not supported.
  if (computed != input && (computed == ScalarType::Bool || !has_kernel_type(computed) ||
                            !computes(call.device, computed) || at::isComplexType(computed) ||
                            at::isComplexType(input))) {
    return false;
  }
  if (types_ == Types::kFloat && !at::isFloatingType(computed) && !at::isComplexType(computed)) {
    return false;
  }
  call.compute = compute_dtype(computed);
  for (size_t k = 0; k < indices_.size(); ++k) {
    ScalarType result = computed;
    if (indices_[k]) {
      result = ScalarType::Long;
    } else if (types_ == Types::kTest) {
      result = input == ScalarType::Byte ? input : ScalarType::Bool;
    }
    const at::Tensor& output = overload_.given_output(stack, k);
    if (output.defined() && (!is_dense_on(output, call.device) || output.scalar_type() != result)) {
      return false;
    }
    call.results.push_back(result);
  }
  return computes(call.device, call.compute);
}

bool ReductionKernel::read_scalars(Call& call, const torch::jit::Stack& stack) const {
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const c10::IValue& value = overload_.read(stack, scalars_[i]);
    if (value.isNone() && absent_[i].has_value()) {
      call.scalars.emplace_back(*absent_[i]);
    } else if (value.isScalar() && !value.toScalar().isComplex()) {
      call.scalars.push_back(value.toScalar());
    } else {
      return false;
    }
  }
  return true;
}

at::TensorIterator ReductionKernel::iterator_of(const Call& call,
                                                c10::ArrayRef<at::Tensor> results) const {
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .resize_outputs(false)
      .is_reduction(true);
  // If indices count, several reduced dimensions must be in logical order in memory.
  const bool flatten = ordered_ && call.reduced.count() > 1;
  const auto dimensions = static_cast<int>(call.input.dim());
  for (const at::Tensor& result : results) {
    config.add_owned_output(
        flatten ? result.as_strided({call.input.numel()}, {0})
                : at::native::review_reduce_result(result, dimensions, call.reduced, call.keepdim));
  }
  config.add_owned_const_input(flatten ? call.input.contiguous().view({-1}) : call.input);
  return config.build();
}

bool ReductionKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  const c10::IValue& first = overload_.read(*stack, 0);
  if (!first.isTensor() || !is_dense_on(first.toTensor(), device)) return false;
  Call call;
  call.device = device;
  call.input = first.toTensor();
  if (call.input.is_conj() || call.input.is_neg()) return false;
  if (!writes_apart(overload_, *stack)) return false;
  if (!read_scalars(call, *stack) || !choose_dimensions(call, *stack) ||
      !choose_types(call, *stack)) {
    return false;
  }
  // Indices are int in kernels.
  const bool counts = std::find(indices_.begin(), indices_.end(), true) != indices_.end();
  if ((ordered_ || counts) && call.input.numel() > INT32_MAX) return false;

  const at::DimVector sizes =
      at::native::shape_from_dim_mask(call.input, call.reduced, call.keepdim);
  int64_t count = 1;
  for (int64_t d = 0; d < call.input.dim(); ++d) {
    if (call.reduced.test(d)) count *= call.input.size(d);
  }
  if (count == 0 && !empty_.has_value()) return false;  // the CPU kernel raises or knows the result
  if (exceeds_ >= 0 && !(static_cast<double>(count) > call.scalars[exceeds_].to<double>())) {
    TORCH_WARN(overload_.name(), ": the correction is not below the number of reduced elements (",
               count, "), so the result is not finite; pass a smaller correction");
  }
  std::vector<at::Tensor> results;
  for (size_t k = 0; k < call.results.size(); ++k) {
    results.push_back(prepare_result(overload_, overload_.given_output(*stack, k), sizes,
                                     call.results[k], device_of(device)));
  }
  if (call.input.numel() == 0) {
    for (const at::Tensor& result : results) {
      if (result.numel() > 0) result.fill_(*empty_);
    }
    overload_.finish(stack, results);
    return true;
  }
  const at::TensorIterator iterator = iterator_of(call, results);
  if (!enqueue(call, iterator)) return false;
  overload_.finish(stack, results);
  return true;
}

const ReductionKernel::Kernels& ReductionKernel::kernels(const Call& call, bool wide) {
  const ScalarType input = call.input.scalar_type();
  return kernels_.find({call.device, wide, input, call.compute, call.results[0]}, [&] {
    const size_t largest =
        std::max({c10::elementSize(call.compute), c10::elementSize(value_dtype(input)), size_t{4}});
    const bool is_complex = at::isComplexType(call.compute) || at::isComplexType(input);
    const int width = is_complex ? 1 : work_shape(call.device).width(static_cast<int>(largest));
    SourceFields source{"reduction", description_};
    source.values.insert(
        source.values.end(),
        {{"input", input},
         {"compute", call.compute},
         {"outputs", std::vector<ScalarType>(call.results.begin(), call.results.end())},
         {"group_lanes", group_lanes(call.device)},
         {"wide_index", wide},
         {"width", width},
         {"dimensions", kReductionDimensions},
         {"columns", kReductionColumns}});
    return Kernels{{call.device, write_source(source), literal_options(call.compute)}, width};
  });
}

bool ReductionKernel::enqueue(const Call& call, const at::TensorIteratorBase& iterator) {
  // The limit of 2^31 counts elements, as strides do, and not bytes.
  const bool wide = !iterator.can_use_32bit_indexing();
  Layout layout;
  if (!describe(layout, iterator)) return false;
  const auto& [kernel, vector_width] = kernels(call, wide);

  const WorkShape shape = work_shape(call.device);
  const auto width = static_cast<uint64_t>(vector_width);
  const bool across =
      layout.reduced_stride[0] != 1 && layout.kept_stride[0] == 1 && layout.kept_size[0] >= width;
  const auto local = static_cast<uint64_t>(shape.local);
  const bool share = group_lanes(call.device) > 1;
  // A group per result needs work for all its work-items.
  const bool groups = share && (across || layout.n >= 2 * local);
  uint64_t items = layout.results;
  uint64_t least = groups ? 16 * local : 2048;  // elements of a part
  if (across && share) {
    const uint64_t lanes = tile_lanes(layout, local, width);
    items = divide_up(layout.kept_size[0], lanes * width) * (items / layout.kept_size[0]);
    least = 8 * (local / lanes);
  } else if (across) {
    items =
        divide_up(layout.kept_size[0], width * kReductionColumns) * (items / layout.kept_size[0]);
    least = 64;
  }
  // Enough work for several groups per compute unit.
  const uint64_t units = std::max<uint32_t>(device_properties(call.device).compute_units, 1);
  const uint64_t wanted = units * (groups ? 8 : 4 * local);
  if (items < wanted && layout.n >= 2 * least) {
    const uint64_t parts = std::min(divide_up(wanted, items), layout.n / least);
    layout.part_size = divide_up(layout.n, parts);
    layout.parts = divide_up(layout.n, layout.part_size);
  } else {
    layout.part_size = layout.n;
  }

  at::Tensor partial;
  if (layout.parts > 1) {
    const auto bytes = layout.parts * layout.results * state_bytes_;
    partial = empty_on(call.device, {static_cast<int64_t>(bytes)}, ScalarType::Byte);
  }
  LaunchArguments arguments;
  const int input = iterator.noutputs();
  arguments.address(iterator.data_ptr(input));
  for (int k = 0; k < input; ++k) arguments.address(iterator.data_ptr(k));
  arguments.address(partial.defined() ? partial.mutable_data_ptr() : iterator.data_ptr(0));
  add_layout(arguments, layout, wide);
  for (const at::Scalar& scalar : call.scalars) add_scalar(arguments, scalar, call.compute);

  const uint64_t work = items * layout.parts;
  if (groups) {
    kernel.launch(across ? "across_group" : "along_group", work * local, local, arguments);
  } else {
    kernel.launch(across ? "across" : "along", work, local, arguments);
  }
  if (layout.parts > 1 && across && share) {
    const uint64_t lanes = std::min(kTileLanes, local);
    kernel.launch("combine_across", divide_up(layout.results, lanes) * local, local, arguments);
  } else if (layout.parts > 1) {
    const bool combine = share && layout.parts >= local / 2;
    kernel.launch(combine ? "combine_group" : "combine", layout.results * (combine ? local : 1),
                  local, arguments);
  }
  return true;
}

C10_REGISTER_CLASS(DefinitionKinds, reduction, ReductionKernel)

}  // namespace outboard
