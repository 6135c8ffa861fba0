#include "device_kernels/reduction/reduction.h"

#include <ATen/TensorIterator.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/SmallVector.h>

#include <bitset>

#include "tensors/dense.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

using at::ScalarType;

constexpr size_t kMostDimensions = 64;

// Compute dtypes: a few types, whose indices and masks are as wide as values.
ScalarType compute_dtype(ScalarType dtype) {
  if (at::isFloatingType(dtype) || at::isComplexType(dtype)) return value_dtype(dtype);
  return dtype == ScalarType::Long ? dtype : ScalarType::Int;
}

// The struct ob_layout of the kernels.
template <class Index>
struct Layout {
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

template <class Index>
bool describe(Layout<Index>& layout, const at::TensorIteratorBase& iterator) {
  const int outputs = iterator.noutputs();
  const int input = outputs;
  for (int d = 0; d < iterator.ndim(); ++d) {
    const auto size = static_cast<Index>(iterator.shape()[d]);
    const auto stride =
        static_cast<Index>(iterator.strides(input)[d] / iterator.element_size(input));
    if (iterator.strides(0)[d] == 0) {
      const Index at = layout.reduced_dimensions++;
      if (at == kReductionDimensions) return false;
      layout.reduced_size[at] = size;
      layout.reduced_stride[at] = stride;
      layout.n *= size;
    } else {
      const Index at = layout.kept_dimensions++;
      if (at == kReductionDimensions) return false;
      layout.kept_size[at] = size;
      layout.kept_stride[at] = stride;
      layout.results *= size;
      for (int k = 0; k < outputs; ++k) {
        layout.output[k][at] =
            static_cast<Index>(iterator.strides(k)[d] / iterator.element_size(k));
      }
    }
  }
  return true;
}

// As in the kernel across_group: work-items that read the adjacent vectors of a tile.
constexpr uint64_t kTileLanes = 32;

uint64_t tile_lanes(const Layout<uint64_t>& layout, uint64_t local, uint64_t width) {
  const uint64_t most = layout.n < 64 ? local : std::min(kTileLanes, local);
  uint64_t lanes = 1;
  while (lanes < most && lanes * width < layout.kept_size[0]) lanes *= 2;
  return std::min(lanes, most);
}

}  // namespace

struct ReductionKernel::Call {
  c10::DeviceIndex device;
  at::Tensor input;
  std::bitset<kMostDimensions> reduced;
  bool keepdim = false;
  ScalarType compute = ScalarType::Undefined;
  c10::SmallVector<ScalarType, 2> results;
  c10::SmallVector<at::Scalar, 2> scalars;
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
  description_.fields = definition.strings("state");
  description_.initial = definition.string("initial");
  description_.step = definition.string("step");
  description_.merge = definition.string("merge");
  description_.results = definition.strings("results");
  const size_t count = description_.results.size();
  const auto& indices = definition.integers("indices");
  for (size_t k = 0; k < count; ++k) {
    description_.indices.push_back(k < indices.size() && indices[k] != 0);
  }
  TORCH_CHECK_VALUE(
      definition.strings("results").size() == overload_.result_count() && count >= 1 && count <= 2,
      "there are ", count, "; one or two are possible, as many as the overload returns");
  description_.parameters = definition.strings("scalars");
  for (const std::string& name : description_.parameters) scalars_.push_back(overload_.index(name));
  definition.check_names("absent", description_.parameters);
  const auto& absent = definition.named_reals("absent");
  for (const std::string& name : description_.parameters) {
    const auto value = absent.find(name);
    absent_.push_back(value != absent.end() ? std::optional(value->second) : std::nullopt);
  }
  if (const std::string& name = definition.string("exceeds"); !name.empty()) {
    const auto& names = description_.parameters;
    const auto found = std::find(names.begin(), names.end(), name);
    TORCH_CHECK_VALUE(found != names.end(), "'", name, "' is none of the scalars");
    exceeds_ = static_cast<int>(found - names.begin());
  }
}

bool ReductionKernel::choose_dimensions(Call& call, const torch::jit::Stack& stack) const {
  if (keepdim_ >= 0) call.keepdim = overload_.read(stack, keepdim_).toBool();
  const int64_t dimensions = call.input.dim();
  if (dimensions >= static_cast<int64_t>(kMostDimensions)) return false;
  const auto reduce_all = [&] {
    for (int64_t d = 0; d < dimensions; ++d) call.reduced.set(d);
    return true;
  };
  if (dim_ < 0) return reduce_all();
  const c10::IValue& value = overload_.read(stack, dim_);
  if (value.isNone()) return reduce_all();
  c10::SmallVector<int64_t, 8> listed;
  if (value.isInt()) {
    listed.push_back(value.toInt());
  } else if (value.isIntList()) {
    for (const int64_t dim : value.toIntList()) listed.push_back(dim);
    if (listed.empty()) return !all_if_empty_ || reduce_all();
  } else {
    return false;
  }
  const int64_t range = std::max<int64_t>(dimensions, 1);
  for (const int64_t dim : listed) {
    if (dim < -range || dim >= range) return false;
    const int64_t wrapped = dim < 0 ? dim + range : dim;
    if (call.reduced.test(wrapped)) return false;
    call.reduced.set(wrapped);
  }
  if (dimensions == 0) call.reduced.reset();
  return true;
}

bool ReductionKernel::choose_types(Call& call, const torch::jit::Stack& stack) const {
  const ScalarType input = call.input.scalar_type();
  if (((dtypes_ >> static_cast<int>(input)) & 1) == 0 || !computes(call.device, input)) {
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
  for (size_t k = 0; k < description_.results.size(); ++k) {
    ScalarType result = computed;
    if (description_.indices[k]) {
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
  const bool counts = std::find(description_.indices.begin(), description_.indices.end(), true) !=
                      description_.indices.end();
  if ((ordered_ || counts) && call.input.numel() > INT32_MAX) return false;

  at::DimVector sizes;
  int64_t count = 1;
  for (int64_t d = 0; d < call.input.dim(); ++d) {
    if (call.reduced.test(d)) count *= call.input.size(d);
    if (!call.reduced.test(d)) {
      sizes.push_back(call.input.size(d));
    } else if (call.keepdim) {
      sizes.push_back(1);
    }
  }
  if (count == 0 && !empty_.has_value()) return false;  // often an error, which the host knows
  if (exceeds_ >= 0 && !(static_cast<double>(count) > call.scalars[exceeds_].to<double>())) {
    TORCH_WARN(overload_.name(), ": the number of elements that are reduced (", count,
               ") is not above the correction, so there are no degrees of freedom left");
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
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(false)
      .check_all_same_dtype(false)
      .resize_outputs(false)
      .is_reduction(true);
  // Outputs are viewed with the sizes of the input and stride 0 in reduced dimensions. If indices
  // count, several reduced dimensions must be in logical order in memory.
  const bool flatten = ordered_ && call.reduced.count() > 1;
  std::vector<at::Tensor> views;
  for (const at::Tensor& result : results) {
    at::DimVector strides;
    int64_t kept = 0;
    for (int64_t d = 0; d < call.input.dim(); ++d) {
      const bool reduced = call.reduced.test(d);
      strides.push_back(reduced ? 0 : result.stride(kept));
      if (!reduced || call.keepdim) ++kept;
    }
    views.push_back(flatten ? result.as_strided({call.input.numel()}, {0})
                            : result.as_strided(call.input.sizes(), strides));
  }
  const at::Tensor input = flatten ? call.input.contiguous().view({-1}) : call.input;
  for (const at::Tensor& view : views) config.add_output(view);
  config.add_const_input(input);
  const at::TensorIterator iterator = config.build();
  if (!enqueue(call, iterator)) return false;
  overload_.finish(stack, results);
  return true;
}

const ReductionKernel::Variant& ReductionKernel::variant(const Call& call, bool wide) {
  const Key key{call.device, wide, call.input.scalar_type(), call.compute, call.results[0]};
  return variants_.find(key, [&] {
    const ReductionSource source{description_,
                                 key.input,
                                 call.compute,
                                 {call.results.begin(), call.results.end()},
                                 work_shape(call.device),
                                 group_lanes(call.device),
                                 wide};
    const std::string text = source_writer().reduction(source);
    const auto kernel = [&](const char* name) {
      return &find_kernel(call.device, text, name, literal_options(call.compute));
    };
    const bool shares = source.group_lanes > 1;
    return Variant{kernel("along"),
                   kernel("across"),
                   kernel("combine"),
                   shares ? kernel("along_group") : nullptr,
                   shares ? kernel("across_group") : nullptr,
                   shares ? kernel("combine_group") : nullptr,
                   shares ? kernel("combine_across") : nullptr,
                   source.width()};
  });
}

bool ReductionKernel::enqueue(const Call& call, const at::TensorIteratorBase& iterator) {
  // The limit of 2^31 counts elements, as strides do, and not bytes.
  const bool wide = !iterator.can_use_32bit_indexing();
  Layout<uint64_t> layout;
  if (!describe(layout, iterator)) return false;
  const Variant& kernels = variant(call, wide);

  const WorkShape shape = work_shape(call.device);
  const uint64_t columns = static_cast<uint64_t>(kernels.width) * kReductionColumns;
  const bool across = layout.reduced_stride[0] != 1 && layout.kept_stride[0] == 1 &&
                      layout.kept_size[0] >= static_cast<uint64_t>(kernels.width);
  const auto local = static_cast<uint64_t>(shape.local);
  const bool share = kernels.along_group != nullptr;
  // A group per result needs work for all its work-items.
  const bool groups = share && (across || layout.n >= 2 * local);
  uint64_t items = layout.results;
  uint64_t least = groups ? 16 * local : 2048;  // elements of a part
  if (across && share) {
    const uint64_t lanes = tile_lanes(layout, local, static_cast<uint64_t>(kernels.width));
    const uint64_t tile = lanes * static_cast<uint64_t>(kernels.width);
    items = (layout.kept_size[0] + tile - 1) / tile * (items / layout.kept_size[0]);
    least = 8 * (local / lanes);
  } else if (across) {
    items = (layout.kept_size[0] + columns - 1) / columns * (items / layout.kept_size[0]);
    least = 64;
  }
  // Enough work for several groups per compute unit.
  const uint64_t units = std::max<uint32_t>(device_properties(call.device).compute_units, 1);
  const uint64_t wanted = units * (groups ? 8 : 4 * local);
  if (items < wanted && layout.n >= 2 * least) {
    const uint64_t parts = std::min((wanted + items - 1) / items, layout.n / least);
    layout.part_size = (layout.n + parts - 1) / parts;
    layout.parts = (layout.n + layout.part_size - 1) / layout.part_size;
  } else {
    layout.part_size = layout.n;
  }

  at::Tensor partial;
  if (layout.parts > 1) {
    const auto bytes = layout.parts * layout.results * description_.state_bytes();
    partial = empty_on(call.device, {static_cast<int64_t>(bytes)}, ScalarType::Byte);
  }
  LaunchArguments arguments;
  const int input = iterator.noutputs();
  arguments.address(iterator.data_ptr(input));
  for (int k = 0; k < input; ++k) arguments.address(iterator.data_ptr(k));
  arguments.address(partial.defined() ? partial.mutable_data_ptr() : iterator.data_ptr(0));
  if (wide) {
    arguments.value(layout);
  } else {
    Layout<uint32_t> narrow;
    static_assert(sizeof(layout) == 2 * sizeof(narrow));
    const auto* from = reinterpret_cast<const uint64_t*>(&layout);
    auto* to = reinterpret_cast<uint32_t*>(&narrow);
    for (size_t i = 0; i < sizeof(narrow) / sizeof(uint32_t); ++i) {
      to[i] = static_cast<uint32_t>(from[i]);
    }
    arguments.value(narrow);
  }
  for (const at::Scalar& scalar : call.scalars) add_scalar(arguments, scalar, call.compute);

  StreamState& stream = current_stream_state(call.device);
  const uint64_t work = items * layout.parts;
  if (groups) {
    launch(stream, across ? *kernels.across_group : *kernels.along_group,
           Grid::linear(work * local, local), arguments);
  } else {
    launch(stream, across ? *kernels.across : *kernels.along, Grid::linear(work, local), arguments);
  }
  if (layout.parts > 1 && across && share) {
    const uint64_t lanes = std::min(kTileLanes, local);
    launch(stream, *kernels.combine_across,
           Grid::linear((layout.results + lanes - 1) / lanes * local, local), arguments);
  } else if (layout.parts > 1) {
    const bool combine = share && layout.parts >= local / 2;
    launch(stream, combine ? *kernels.combine_group : *kernels.combine,
           Grid::linear(layout.results * (combine ? local : 1), local), arguments);
  }
  return true;
}

OUTBOARD_DEFINITION_KIND("reduction", ReductionKernel);

}  // namespace outboard
