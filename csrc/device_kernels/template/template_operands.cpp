// First step of a call: whether the definition serves it, and the dtypes of all tensors.
#include <ATen/Context.h>
#include <c10/util/SmallVector.h>

#include <algorithm>

#include "device_kernels/kernel_types.h"
#include "device_kernels/definitions/numbers.h"
#include "device_kernels/template/template_call.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"

namespace outboard {

using at::ScalarType;

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
  // Tensors that matter for their sizes alone: the host raises if they are on another device.
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

// Of result or temporary `i`; what stands before it in the definition has its dtype already.
ScalarType TemplateKernel::made_dtype(const Call& call, const torch::jit::Stack& stack,
                                      size_t i) const {
  const Tensor& tensor = tensors_[i];
  const size_t result = i - operand_count_;
  const auto argument = [&](ScalarType absent) {
    const int place = overload_.find("dtype");
    if (place < 0 || overload_.read(stack, place).isNone()) return absent;
    return overload_.read(stack, place).toScalarType();
  };
  if (result < call.meta.size() && call.meta[result].defined()) {
    return call.meta[result].scalar_type();
  }
  if (tensor.from_argument) {
    return argument(operand_count_ > 0 ? call.dtypes[0] : at::get_default_dtype_as_scalartype());
  }
  if (tensor.of_values) return value_dtype(compute_dtype(call));
  if (tensor.dtype != ScalarType::Undefined) return tensor.dtype;
  if (tensor.dtype_of != static_cast<int>(i)) return call.dtypes[tensor.dtype_of];
  // A factory's result: given, by the argument `dtype`, or the default.
  const at::Tensor& given = overload_.given_output(stack, result);
  return given.defined() ? given.scalar_type() : argument(at::get_default_dtype_as_scalartype());
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
  // A result that starts from an operand may be that one.
  c10::SmallVector<int, 4> initial;
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const int operand = tensors_[operand_count_ + k].starts_as;
    initial.push_back(operand >= 0 ? tensors_[operand].argument : -1);
  }
  if (!writes_apart(overload_, stack, initial)) return false;
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const Tensor& description = tensors_[operand_count_ + k];
    const at::Tensor& given = overload_.given_output(stack, k);
    // Of another dtype: the host knows whether that is an error.
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

}  // namespace outboard
