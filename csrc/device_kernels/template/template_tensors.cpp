// Tensors of a call: whether the definition serves them, dtypes, results, temporaries, and contents
// before the first launch.
#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <c10/core/MemoryFormat.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "device_kernels/kernel_types.h"
#include "device_kernels/template/template.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"
#include "transfer/copy.h"

namespace outboard {

using at::ScalarType;

namespace {

// Strides of a memory format; empty for row-major order.
at::DimVector strides_in(at::MemoryFormat format, at::IntArrayRef sizes) {
  if (format == at::MemoryFormat::ChannelsLast && sizes.size() == 4) {
    return at::DimVector(c10::get_channels_last_strides_2d(sizes));
  }
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 5) {
    return at::DimVector(c10::get_channels_last_strides_3d(sizes));
  }
  return {};
}

}  // namespace

bool TemplateKernel::take_operands(Call& call, const torch::jit::Stack& stack) const {
  for (size_t i = 0; i < operand_count_; ++i) {
    const ExpressionValue& value = call.values.value(tensors_[i].value);
    if (!value.given()) {
      if (!tensors_[i].optional) return false;
      call.tensors.emplace_back();
      continue;
    }
    const at::Tensor& tensor = value.as_tensor();
    if (!is_dense_on(tensor, call.device) || tensor.is_conj() || tensor.is_neg()) return false;
    if (tensors_[i].strided && tensor.dim() > kTemplateDimensions) return false;
    call.tensors.push_back(tensor);
  }
  // Tensors that give only sizes: the CPU kernel raises if they are on another device.
  return std::all_of(unread_.begin(), unread_.end(), [&](const int argument) {
    const c10::IValue& value = overload_.read(stack, argument);
    return !value.isTensor() || !value.toTensor().defined() || value.toTensor().dim() == 0 ||
           is_dense_on(value.toTensor(), call.device);
  });
}

bool TemplateKernel::take_operand_dtypes(Call& call) const {
  for (size_t i = 0; i < operand_count_; ++i) {
    if (!call.tensors[i].defined()) continue;
    const ScalarType dtype = call.tensors[i].scalar_type();
    call.dtypes[i] = dtype;
    if (!has_kernel_type(dtype)) return false;
    if (!tensors_[i].items && !computes(call.device, dtype)) return false;
    if (i == 0) continue;
    const bool fits = tensors_[i].accepts != 0 ? (tensors_[i].accepts & dtype_bit(dtype)) != 0
                                               : dtype == call.dtypes[0];
    if (!fits) return false;
  }
  return true;
}

// The dtype of result or temporary `i`. Tensors before it in the definition have theirs already.
ScalarType TemplateKernel::made_dtype(Call& call, const torch::jit::Stack& stack, size_t i) const {
  const size_t result = i - operand_count_;
  if (result < call.meta.size() && call.meta[result].defined()) {
    return call.meta[result].scalar_type();
  }
  if (value_dtype_ >= 0) call.values.set(value_dtype_, value_dtype(compute_dtype(call)));
  ScalarType dtype = ScalarType::Undefined;
  if (tensors_[i].dtype >= 0) dtype = call.values.value(tensors_[i].dtype).scalar_type();
  if (dtype != ScalarType::Undefined) return dtype;
  if (i > 0) return call.dtypes[0];
  // The result of a factory: the dtype of the given output, the argument `dtype`, or the default.
  const at::Tensor& given = overload_.given_output(stack, result);
  if (given.defined()) return given.scalar_type();
  const int argument = overload_.find("dtype");
  return argument < 0 || overload_.read(stack, argument).isNone()
             ? at::get_default_dtype_as_scalartype()
             : overload_.read(stack, argument).toScalarType();
}

bool TemplateKernel::choose_dtypes(Call& call, const torch::jit::Stack& stack) const {
  call.dtypes.resize(tensors_.size(), ScalarType::Undefined);
  if (!take_operand_dtypes(call)) return false;
  for (size_t i = operand_count_; i < tensors_.size(); ++i) {
    const ScalarType dtype = made_dtype(call, stack, i);
    call.dtypes[i] = dtype;
    if (dtype == ScalarType::Undefined) continue;
    if (!has_kernel_type(dtype) || (!tensors_[i].items && !computes(call.device, dtype))) {
      return false;
    }
  }
  if ((dtypes_ & dtype_bit(call.dtypes[0])) == 0) return false;
  if (operand_count_ > 0 && !takes_numbers(call.dtypes[0], number_arguments_, overload_, stack)) {
    return false;
  }
  return compute_ == ScalarType::Undefined || computes(call.device, compute_);
}

bool TemplateKernel::given_results_fit(const Call& call, const torch::jit::Stack& stack) const {
  if (overload_.form() == Overload::Form::kFunctional) return true;
  // A result that starts as an operand may be that operand.
  c10::SmallVector<int, 4> initial;
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const int operand = tensors_[operand_count_ + k].starts_as;
    initial.push_back(operand >= 0 ? tensors_[operand].argument : -1);
  }
  if (!writes_apart(overload_, stack, initial)) return false;
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const Tensor& description = tensors_[operand_count_ + k];
    const at::Tensor& given = overload_.given_output(stack, k);
    // For another dtype the CPU kernel raises or converts.
    if (!is_dense_on(given, call.device) || given.is_conj() || given.is_neg() ||
        given.scalar_type() != call.dtypes[operand_count_ + k] ||
        (description.strided && given.dim() > kTemplateDimensions)) {
      return false;
    }
    for (size_t i = 0; i < operand_count_; ++i) {
      const at::Tensor& operand = call.tensors[i];
      if (!operand.defined() || operand.is_same(given)) continue;
      const bool grows = k < call.meta.size() && given.sizes() != call.meta[k].sizes();
      if (grows && given.storage().is_alias_of(operand.storage())) return false;
    }
  }
  return true;
}

void TemplateKernel::set_facts(Call& call) const {
  const auto set = [&](int node, ExpressionNumber number) {
    if (node >= 0) call.values.set(node, number);
  };
  const ob_device_properties& properties = device_properties(call.device);
  set(group_lanes_, int64_t{call.lanes});
  set(deterministic_, at::globalContext().deterministicAlgorithms());
  set(processors_, int64_t{properties.compute_units});
  set(matrix_units_, (properties.features & OB_FEATURE_MATRIX_UNITS) != 0);
}

bool TemplateKernel::prepare(Call& call, const torch::jit::Stack& stack) const {
  conditions_.set_arguments(call.values, stack);
  if (!evaluates([&] { return take_operands(call, stack); })) return false;
  if (operand_count_ > 0 && (dtypes_ & dtype_bit(call.tensors[0].scalar_type())) == 0) return false;
  call.lanes = group_lanes(call.device);
  set_facts(call);
  for (const int argument : scalars_) {
    const c10::IValue& value = overload_.read(stack, argument);
    if (!value.isScalar()) return false;
    call.scalars.push_back(value.toScalar());
  }
  const bool served = evaluates([&] {
    if (lanes_ >= 0) call.lanes = static_cast<int>(call.values.integer(lanes_));
    return conditions_.hold(stack, call.values);
  });
  if (!served) return false;
  if (meta_ != nullptr) call.meta = meta_->results(overload_, stack);
  return choose_dtypes(call, stack) && given_results_fit(call, stack);
}

bool TemplateKernel::make_results(Call& call, const torch::jit::Stack& stack) const {
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const size_t i = operand_count_ + k;
    const Tensor& description = tensors_[i];
    bool wanted = true;
    at::DimVector sizes;
    at::DimVector strides;
    const bool known = evaluates([&] {
      wanted = description.wanted < 0 || call.values.truth(description.wanted);
      if (!wanted) return true;
      if (k < call.meta.size()) {
        sizes = call.meta[k].sizes();
        strides = call.meta[k].strides();
      } else {
        sizes = description.sizes < 0 ? at::DimVector(call.tensors.at(0).sizes())
                                      : call.values.sizes(description.sizes);
      }
      if (description.strides >= 0) strides = call.values.sizes(description.strides);
      return true;
    });
    if (!known) return false;
    if (!wanted) {
      call.dtypes[i] = at::ScalarType::Undefined;
      call.results.emplace_back();
      continue;
    }
    if (description.strides < 0 && strides.empty() && description.like >= 0) {
      const at::Tensor& model = call.tensors[description.like];
      strides = at::infer_dense_strides(model.sizes(), model.strides());
      if (model.is_non_overlapping_and_dense()) strides = model.strides();
      if (strides.size() != sizes.size()) strides.clear();
    }
    if (description.memory_format >= 0 && strides.empty()) {
      strides = strides_in(call.tensors[description.memory_format].suggest_memory_format(), sizes);
    }
    call.results.push_back(prepare_result(
        overload_, overload_.given_output(stack, k), sizes, call.dtypes[i], device_of(call.device),
        strides.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(strides),
        resizes_silently_));
    const at::Tensor& result = call.results.back();
    // A result that is also an operand is written to other memory first, unless it starts as it.
    bool elsewhere = !description.strided && !result.is_contiguous();
    for (size_t other = 0; other < operand_count_; ++other) {
      elsewhere = elsewhere || (description.starts_as != static_cast<int>(other) &&
                                result.is_same(call.tensors[other]));
    }
    // Unshares a copy-on-write storage: kernels get plain addresses.
    if (!elsewhere) result.mutable_data_ptr();
    call.tensors[i] =
        elsewhere ? empty_on(call.device, result.sizes(), result.scalar_type()) : result;
    if (description.name_node >= 0) call.values.set(description.name_node, call.tensors[i]);
    initialize(call, i);
  }
  return true;
}

void TemplateKernel::make_operands_dense(Call& call) const {
  for (size_t i = 0; i < operand_count_; ++i) {
    if (call.tensors[i].defined() && !tensors_[i].strided) {
      call.tensors[i] = call.tensors[i].contiguous();
    }
  }
}

bool TemplateKernel::make_temporaries(Call& call) const {
  for (size_t i = operand_count_ + overload_.result_count(); i < tensors_.size(); ++i) {
    int64_t count = -1;
    const bool known = evaluates([&] {
      count = call.values.integer(tensors_[i].sizes);
      return true;
    });
    if (!known) return false;
    call.tensors[i] = empty_on(call.device, {count}, call.dtypes[i]);
    if (tensors_[i].name_node >= 0) call.values.set(tensors_[i].name_node, call.tensors[i]);
    initialize(call, i);
  }
  return true;
}

void TemplateKernel::initialize(Call& call, size_t i) const {
  const Tensor& description = tensors_[i];
  const at::Tensor& tensor = call.tensors[i];
  if (tensor.numel() == 0) return;
  if (description.initial >= 0) {
    fill_on_device(tensor, call.values.number(description.initial).as_real());
  }
  if (description.starts_as < 0) return;
  const at::Tensor& source = call.tensors[description.starts_as];
  if (!tensor.is_same(source)) copy_into(tensor, source);
}

}  // namespace outboard
