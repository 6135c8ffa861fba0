#include "engines/pointwise.h"

#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <limits>

#include "engines/kernel_types.h"
#include "engines/work_shape.h"
#include "runtime/device.h"

namespace outboard {
namespace {

using at::ScalarType;

constexpr int kMostOperands = 8;  // of a Key

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// The text by which rows name an argument's value.
std::string text_of(const c10::IValue& value) {
  if (value.isNone()) return "None";
  if (value.isString()) return value.toStringRef();
  if (value.isBool()) return value.toBool() ? "True" : "False";
  if (value.isInt()) return std::to_string(value.toInt());
  return "?";
}

bool fits(const at::Scalar& scalar, ScalarType dtype, bool strict) {
  if (scalar.isComplex()) return at::isComplexType(dtype);
  if (!strict) return true;
  if (scalar.isBoolean()) return dtype == ScalarType::Bool;
  if (scalar.isFloatingPoint()) return !at::isIntegralType(dtype, /*includeBool=*/true);
  return true;
}

// "lowest" and "highest" are neutral for minima and maxima; "smallest" and "largest" are finite.
at::Scalar absent_value(const std::string& text, ScalarType dtype) {
  if (text == "smallest" || text == "largest") {
    const double sign = text == "largest" ? 1 : -1;
    switch (dtype) {
      case ScalarType::Half:
        return at::Scalar(sign * std::numeric_limits<c10::Half>::max());
      case ScalarType::BFloat16:
        return at::Scalar(sign * std::numeric_limits<c10::BFloat16>::max());
      case ScalarType::Float:
      case ScalarType::ComplexFloat:
        return at::Scalar(sign * std::numeric_limits<float>::max());
      default:
        return at::Scalar(sign * std::numeric_limits<double>::max());
    }
  }
  const bool lowest = text == "lowest";
  if (!lowest && text != "highest") return at::Scalar(std::stod(text));
  const double infinity = std::numeric_limits<double>::infinity();
  if (at::isFloatingType(dtype) || at::isComplexType(dtype)) {
    return at::Scalar(lowest ? -infinity : infinity);
  }
  switch (dtype) {
    case ScalarType::Bool:
      return at::Scalar(!lowest);
    case ScalarType::Byte:
      return at::Scalar(lowest ? 0 : 255);
    case ScalarType::Char:
      return at::Scalar(lowest ? -128 : 127);
    case ScalarType::Short:
      return at::Scalar(lowest ? -32768 : 32767);
    case ScalarType::Int:
      return at::Scalar(static_cast<int64_t>(lowest ? INT32_MIN : INT32_MAX));
    default:
      return at::Scalar(static_cast<int64_t>(lowest ? INT64_MIN : INT64_MAX));
  }
}

PointwiseSource::Result result_of(const std::string& text) {
  if (text == "mask") return PointwiseSource::Result::kMask;
  if (text == "real") return PointwiseSource::Result::kReal;
  TORCH_CHECK_VALUE(text.empty() || text == "value", "the result '", text,
                    "' of a pointwise row is none of 'value', 'mask' and 'real'");
  return PointwiseSource::Result::kValue;
}

}  // namespace

struct PointwiseKernel::Call {
  c10::DeviceIndex device;
  c10::SmallVector<at::Tensor, 4> wrapped;  // numbers as tensors
  c10::SmallVector<const at::Tensor*, 6> inputs;
  c10::SmallVector<const at::Tensor*, 2> outputs;
  c10::SmallVector<std::optional<at::Scalar>, 4> scalars;  // nullopt: absent
  ScalarType common = ScalarType::Undefined;
  ScalarType compute = ScalarType::Undefined;
  ScalarType result = ScalarType::Undefined;
};

PointwiseKernel::PointwiseKernel(const Row& row, const c10::FunctionSchema& schema)
    : EngineKernel(row, schema),
      expressions_(row.texts("expressions")),
      result_(result_of(row.text("result"))),
      types_(row.has("types") ? row.text("types") : "promote"),
      dtypes_(static_cast<uint64_t>(row.integer("dtypes", -1))),
      result_dtype_(row.integer("result_dtype", -1)),
      any_output_(row.flag("any_output")),
      may_overlap_(row.flag("may_overlap")),
      strict_(row.flag("strict")),
      scalar_(row.flag("scalar")) {
  const auto& names = row.has("names") ? row.texts("names") : row.texts("operands");
  const auto& arguments = row.texts("operands");
  TORCH_CHECK_VALUE(names.size() == arguments.size() && names.size() < kMostOperands - 1 &&
                        expressions_.size() == overload_.result_count() && !expressions_.empty(),
                    "the pointwise row of ", overload_.name(),
                    " has not as many names as operands, too many of them, or not one expression "
                    "per result");
  for (size_t i = 0; i < arguments.size(); ++i) {
    operands_.push_back(
        {overload_.index(arguments[i]), names[i], contains(row.texts("masks"), names[i])});
  }
  const auto& scalars = row.texts("scalars");
  const auto& scalar_names = row.has("scalar_names") ? row.texts("scalar_names") : scalars;
  TORCH_CHECK_VALUE(scalars.size() == scalar_names.size(), "the pointwise row of ",
                    overload_.name(), " has not as many scalar names as scalars");
  const auto& absent = row.dictionary("absent");
  for (size_t i = 0; i < scalars.size(); ++i) {
    const auto value = absent.find(scalar_names[i]);
    scalars_.push_back({overload_.find(scalars[i]), scalar_names[i],
                        value != absent.end() ? value->second : "",
                        contains(row.texts("promoting"), scalar_names[i])});
    TORCH_CHECK_VALUE(scalars_.back().argument >= 0 || value != absent.end(),
                      "a row names the "
                      "argument '",
                      scalars[i], "', which ", overload_.name(), " does not have");
  }
  for (const auto& [argument, value] : row.dictionary("requires")) {
    requirements_.push_back({overload_.index(argument), value});
  }
}

bool PointwiseKernel::meets_requirements(const torch::jit::Stack& stack) const {
  for (const Requirement& requirement : requirements_) {
    if (text_of(overload_.read(stack, requirement.argument)) != requirement.value) return false;
  }
  return true;
}

bool PointwiseKernel::gather(Call& call, const torch::jit::Stack& stack) const {
  call.wrapped.reserve(operands_.size());  // `inputs` points into it
  const auto usable = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided) return false;
    if (!tensor.is_privateuseone()) return tensor.is_cpu() && tensor.dim() == 0;
    return tensor.device().index() == call.device && computes(call.device, tensor.scalar_type());
  };
  for (const Operand& operand : operands_) {
    const c10::IValue& value = overload_.read(stack, operand.argument);
    if (value.isTensor()) {
      if (!usable(value.toTensor())) return false;
      call.inputs.push_back(&value.toTensor());
    } else if (value.isScalar()) {
      call.wrapped.push_back(at::native::wrapped_scalar_tensor(value.toScalar()));
      call.inputs.push_back(&call.wrapped.back());
    } else {
      return false;
    }
  }
  for (size_t i = 0; i < expressions_.size(); ++i) {
    const at::Tensor& output = overload_.given_output(stack, i);
    if (output.defined() && !(output.is_privateuseone() && usable(output))) return false;
    call.outputs.push_back(&output);
  }
  for (const ScalarArgument& scalar : scalars_) {
    const c10::IValue* value =
        scalar.argument >= 0 ? &overload_.read(stack, scalar.argument) : nullptr;
    if (value == nullptr || value->isNone()) {
      if (scalar.absent.empty()) return false;
      call.scalars.push_back(std::nullopt);
    } else if (value->isScalar()) {
      call.scalars.push_back(value->toScalar());
    } else {
      return false;
    }
  }
  return true;
}

bool PointwiseKernel::choose_types(Call& call) const {
  if (types_ == "self") {
    const at::Tensor* model = call.inputs.empty() ? call.outputs[0] : call.inputs[0];
    if (!model->defined()) return false;
    call.common = model->scalar_type();
  } else {
    at::native::ResultTypeState state;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!operands_[i].mask) {
        state = at::native::update_result_type_state(*call.inputs[i], state);
      }
    }
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (scalars_[i].promotes && call.scalars[i].has_value()) {
        state = at::native::update_result_type_state(*call.scalars[i], state);
      }
    }
    call.common = at::native::result_type(state);
    if (types_ == "float" && at::isIntegralType(call.common, /*includeBool=*/true)) {
      call.common = c10::get_default_dtype_as_scalartype();
    }
  }
  if (((dtypes_ >> static_cast<int>(call.common)) & 1) == 0) return false;
  if (types_ == "complex") call.common = c10::toComplexType(call.common);
  if (!computes(call.device, call.common)) return false;
  call.compute = value_dtype(call.common);
  if (result_dtype_ >= 0) {
    call.result = static_cast<ScalarType>(result_dtype_);
  } else if (result_ == PointwiseSource::Result::kMask) {
    call.result = ScalarType::Bool;
  } else if (result_ == PointwiseSource::Result::kReal) {
    call.result = c10::toRealValueType(call.common);
  } else {
    call.result = call.common;
  }
  return true;
}

bool PointwiseKernel::accepts_scalars(const Call& call) const {
  for (const auto& scalar : call.scalars) {
    if (scalar.has_value() && !fits(*scalar, call.common, strict_)) return false;
  }
  return true;
}

bool PointwiseKernel::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          torch::jit::Stack* stack, c10::DeviceIndex device) {
  Call call;
  call.device = device;
  if (!meets_requirements(*stack) || !gather(call, *stack) || !choose_types(call) ||
      !accepts_scalars(call)) {
    return false;
  }
  for (const at::Tensor* output : call.outputs) {
    TORCH_CHECK(
        !output->defined() || any_output_ || c10::canCast(call.result, output->scalar_type()),
        "result type ", call.result, " can't be cast to the desired output type ",
        output->scalar_type());
  }

  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(!may_overlap_)
      .check_all_same_dtype(false)
      .allow_cpu_scalars(true)
      .resize_outputs(overload_.form() != Overload::Form::kInPlace)
      .declare_static_dtype_and_device(call.result, device_of(device));
  for (const at::Tensor* output : call.outputs) config.add_output(*output);
  for (const at::Tensor* input : call.inputs) config.add_const_input(*input);
  at::TensorIterator iterator = config.build();

  if (iterator.ndim() > kPointwiseDimensions) return false;
  if (iterator.numel() > 0) enqueue(call, iterator);
  if (expressions_.size() == 1) {
    overload_.finish(stack, iterator.output(0));
  } else {
    std::vector<at::Tensor> results;
    for (size_t i = 0; i < expressions_.size(); ++i) results.push_back(iterator.output(i));
    overload_.finish(stack, std::move(results));
  }
  return true;
}

namespace {

// Whether operand `i` reaches the kernel as an argument.
bool is_value(const at::TensorIteratorBase& iterator, int i) {
  return i >= iterator.noutputs() && iterator.is_cpu_scalar(i);
}

bool is_contiguous(const at::TensorIteratorBase& iterator) {
  if (iterator.ndim() > 1) return false;
  for (int i = 0; i < iterator.ntensors(); ++i) {
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

PointwiseKernel::Variant* PointwiseKernel::make_variant(const Call& call,
                                                        const at::TensorIteratorBase& iterator,
                                                        bool wide, const Key& key) const {
  PointwiseSource source;
  source.compute = call.compute;
  source.shape = work_shape(call.device);
  source.wide_index = wide;
  source.scalar = scalar_;
  for (int i = 0; i < iterator.noutputs(); ++i) {
    source.outputs.push_back({iterator.dtype(i), result_, expressions_[i]});
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int place = iterator.noutputs() + static_cast<int>(i);
    const bool by_value = is_value(iterator, place);
    const ScalarType dtype =
        by_value ? (operands_[i].mask ? ScalarType::Bool : call.compute) : iterator.dtype(place);
    source.inputs.push_back({operands_[i].name, dtype, operands_[i].mask, by_value});
  }
  for (const ScalarArgument& scalar : scalars_) source.scalars.push_back(scalar.name);
  const std::string text = source.text();
  const char* options = literal_options(call.compute);
  return new Variant{key, &find_kernel(call.device, text, "contiguous", options),
                     &find_kernel(call.device, text, "strided", options), nullptr};
}

const PointwiseKernel::Variant& PointwiseKernel::variant(const Call& call,
                                                         const at::TensorIteratorBase& iterator,
                                                         bool wide) {
  Key key;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    const bool by_value = is_value(iterator, i);
    if (by_value) key.rest |= uint64_t{1} << i;
    // Values are converted before they are passed.
    key.dtypes = key.dtypes << 6 | (by_value ? 0 : static_cast<uint64_t>(iterator.dtype(i)));
  }
  key.dtypes = key.dtypes << 6 | static_cast<uint64_t>(call.compute);
  key.rest |= (wide ? uint64_t{1} : 0) << 8 | static_cast<uint64_t>(call.device) << 16;
  for (const Variant* known = variants_.load(std::memory_order_acquire); known != nullptr;
       known = known->next) {
    if (known->key == key) return *known;
  }
  Variant* made = make_variant(call, iterator, wide, key);
  made->next = variants_.load(std::memory_order_relaxed);
  while (!variants_.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
  }
  return *made;
}

void PointwiseKernel::enqueue(const Call& call, const at::TensorIteratorBase& iterator) {
  const bool wide = !iterator.can_use_32bit_indexing();
  const Variant& kernels = variant(call, iterator, wide);
  LaunchArguments arguments;
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) {
      const bool mask = operands_[i - iterator.noutputs()].mask;
      add_element(arguments, iterator.data_ptr(i), iterator.dtype(i),
                  mask ? ScalarType::Bool : call.compute);
    } else {
      arguments.address(iterator.data_ptr(i));
    }
  }
  for (size_t i = 0; i < scalars_.size(); ++i) {
    const auto& given = call.scalars[i];
    add_scalar(arguments,
               given.has_value() ? *given : absent_value(scalars_[i].absent, call.common),
               call.compute);
  }
  const bool contiguous = is_contiguous(iterator);
  if (!contiguous) {
    wide ? add_layout<uint64_t>(arguments, iterator) : add_layout<uint32_t>(arguments, iterator);
  }
  const auto total = static_cast<uint64_t>(iterator.numel());
  wide ? arguments.value(total) : arguments.value(static_cast<uint32_t>(total));
  const WorkShape shape = work_shape(call.device);
  const uint64_t items = (total + shape.chunk - 1) / shape.chunk;
  launch(current_stream_state(call.device), contiguous ? *kernels.contiguous : *kernels.strided,
         Grid::linear(items, shape.local), arguments);
}

OUTBOARD_ENGINE("pointwise", PointwiseKernel);

}  // namespace outboard
