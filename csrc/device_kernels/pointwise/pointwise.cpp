// The kernel generator `pointwise`: an expression of scalar functions over broadcast operands, with
// a kernel per combination of dtypes and class of layouts.
#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/pointwise_launch.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"
#include "torch_version.h"

#if !OUTBOARD_TORCH_AT_LEAST(13)
#include <ATen/NamedTensorUtils.h>
#endif

namespace outboard {
namespace {

using at::ScalarType;

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

using Result = PointwiseExpression::Result;

Result result_of(const Definition& definition) {
  return static_cast<Result>(definition.one_of("result", {"value", "mask", "real"}));
}

// Allocates outputs without the dispatcher.
struct NewOutputs final : at::TensorIteratorBase {
  explicit NewOutputs(size_t count) : outputs(count) {}

  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    const c10::DeviceIndex device = options.device().index();
    const ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
    at::Tensor& output = outputs[static_cast<size_t>(index)];
    output = strides.empty() ? empty_on(device, sizes, dtype, options.memory_format_opt())
                             : empty_strided_on(device, sizes, strides, dtype);
#if !OUTBOARD_TORCH_AT_LEAST(13)
    if (!names.empty()) at::namedinference::propagate_names(output, names);
#endif
    TensorIteratorBase::set_output_raw_strided(index, sizes, strides,
                                               options OUTBOARD_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t index) override {
    return outputs[static_cast<size_t>(index)];
  }

  c10::SmallVector<at::Tensor, 2> outputs;  // must not move: the iterator borrows them
};

bool is_list(const Overload& overload, const std::string& argument) {
  const int index = overload.find(argument);
  return index >= 0 && overload.argument(index).type()->kind() == c10::TypeKind::ListType;
}

PointwiseExpression expression_of(const Definition& definition, const Overload& overload) {
  PointwiseExpression expression;
  const auto& names = definition.strings("names");
  for (size_t i = 0; i < names.size(); ++i) {
    const auto& arguments = definition.strings("operands");
    const bool common = i < arguments.size() && !is_list(overload, arguments[i]);
    expression.operands.push_back({names[i], contains(definition.strings("masks"), names[i]),
                                   contains(definition.strings("uniform"), names[i]), common});
  }
  expression.scalars = definition.strings("scalar_names");
  for (const std::string& argument : definition.strings("scalars")) {
    expression.listed_scalars.push_back(is_list(overload, argument));
  }
  for (const auto& [name, node] : definition.named_integers("derived")) {
    expression.scalars.push_back(name);
    expression.listed_scalars.push_back(false);
  }
  for (const auto& [name, source] : definition.get<Definition::Dictionary>("once")) {
    expression.once.emplace_back(name, source);
  }
  expression.condition = definition.string("flag_if");
  expression.results = definition.strings("expressions");
  expression.kind = result_of(definition);
  expression.scalar = definition.flag("scalar");
  if (const std::string& divisor = definition.string("divisor"); !divisor.empty()) {
    expression.divisor = Definition::index_of(names, divisor);
    expression.operation = definition.strings("overloads").at(0);
  }
  return expression;
}

const at::Tensor& undefined() {
  static const at::Tensor* tensor = new at::Tensor;
  return *tensor;
}

// True if kernels can read the tensor, or take it as an argument.
bool is_usable(const at::Tensor& tensor, c10::DeviceIndex device) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return false;
  if (!tensor.is_privateuseone()) return tensor.is_cpu() && tensor.dim() == 0;
  return tensor.device().index() == device && computes(device, tensor.scalar_type());
}

// The argument, or for a list the element of call `k` (one call per element).
const c10::IValue& element(const c10::IValue& value, int64_t k) {
  return k >= 0 && value.isList() ? value.toListRef()[k] : value;
}

}  // namespace

class PointwiseKernel final : public DefinedKernel {
 public:
  PointwiseKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Types : uint8_t { kPromote, kFloat, kComplex, kSelf, kSame };
  struct ScalarArgument {
    int argument;                      // -1: the overload does not have it
    std::optional<at::Scalar> absent;  // nullopt: the call is declined
    bool promotes;
  };
  struct Call {
    explicit Call(c10::DeviceIndex device_) : device(device_) {}

    c10::DeviceIndex device;
    c10::SmallVector<at::Tensor, 8> wrapped;  // numbers as 0-d tensors, and rounded inputs
    c10::SmallVector<const at::Tensor*, 6> inputs;
    c10::SmallVector<const at::Tensor*, 2> outputs;
    c10::SmallVector<std::optional<at::Scalar>, 4> scalars;  // nullopt: absent
    ScalarType common = ScalarType::Undefined;
    ScalarType compute = ScalarType::Undefined;
    ScalarType result = ScalarType::Undefined;
  };

  // `k`: index of the element in an overload over lists, else -1.
  bool prepare(Call& call, const torch::jit::Stack& stack, int64_t k) const;
  bool gather(Call& call, const torch::jit::Stack& stack, int64_t k) const;
  bool gather_tensor(Call& call, const PointwiseExpression::Operand& operand,
                     const at::Tensor& tensor) const;
  const at::Tensor& output_of(const Call& call, const torch::jit::Stack& stack, size_t result,
                              int64_t k) const;
  bool choose_types(Call& call) const;
  bool accepts_scalars(const Call& call) const;
  void round_inputs(Call& call) const;
  // Resizes and checks outputs.
  void configure(const Call& call, at::TensorIteratorConfig& config) const;
  bool takes(const Call& call, const at::TensorIteratorBase& iterator) const;
  c10::SmallVector<at::Scalar, 8> numbers_of(const Call& call) const;
  bool execute(const Call& call, c10::SmallVectorImpl<at::Tensor>& results);
  bool enqueue(const Call& call, const at::TensorIteratorBase& iterator);
  bool run_lists(torch::jit::Stack* stack, c10::DeviceIndex device);
  bool derive(const torch::jit::Stack& stack, c10::SmallVectorImpl<at::Scalar>& numbers) const;

  std::vector<int> operands_;  // arguments
  std::vector<ScalarArgument> scalars_;
  const Result result_;
  const Types types_;
  const uint64_t dtypes_;
  const bool any_output_;
  const bool same_output_;
  const bool may_overlap_;
  const bool resizes_silently_;
  const bool strict_;
  const bool rounded_;
  std::vector<int> lists_;       // arguments; one call per element, as in _foreach_add
  std::vector<size_t> updated_;  // operands that are written, of operators without results
  std::vector<int> derived_;     // nodes of further numbers
  int flag_ = -1;                // the argument that the condition of an element sets
  PointwiseLauncher launcher_;
};

PointwiseKernel::PointwiseKernel(const Definition& definition, const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      result_(result_of(definition)),
      types_(static_cast<Types>(
          definition.one_of("types", {"promote", "float", "complex", "self", "same"}))),
      dtypes_(definition.dtypes()),
      any_output_(definition.flag("any_output")),
      same_output_(definition.flag("same_output")),
      may_overlap_(definition.flag("may_overlap")),
      resizes_silently_(definition.flag("resizes_silently")),
      strict_(definition.flag("strict")),
      rounded_(definition.flag("rounded")),
      launcher_(expression_of(definition, overload_)) {
  const PointwiseExpression& expression = launcher_.expression();
  const auto& scalars = definition.strings("scalars");
  TORCH_CHECK_VALUE(definition.strings("scalar_names").size() == scalars.size(),
                    "`scalars` and `scalar_names` differ in length");
  definition.check_names("promoting", expression.scalars);
  definition.check_names("absent", expression.scalars);
  definition.check_names("masks", definition.strings("names"));
  definition.check_names("uniform", definition.strings("names"));
  const auto& names = definition.strings("names");
  for (const std::string& name : definition.strings("updated")) {
    updated_.push_back(Definition::index_of(names, name));
  }
  const auto& arguments = definition.strings("operands");  // last: errors name this field
  TORCH_CHECK_VALUE(names.size() == arguments.size(), "`operands` and `names` differ in length");
  for (const std::string& name : arguments) operands_.push_back(overload_.index(name));
  for (const auto& listed : {arguments, scalars}) {
    for (const std::string& name : listed) {
      if (is_list(overload_, name)) lists_.push_back(overload_.index(name));
    }
  }
  for (const auto& [name, node] : definition.named_integers("derived")) {
    derived_.push_back(definition.graph->checked(node));
  }
  if (const std::string& flag = definition.string("flag"); !flag.empty())
    flag_ = overload_.index(flag);
  TORCH_CHECK_VALUE(flag_ >= 0 || expression.condition.empty(), "a condition needs a `flag`");
  TORCH_CHECK_VALUE(!lists_.empty() || (updated_.empty() && derived_.empty() && flag_ < 0),
                    "operators without lists have no `updated`, `derived` and `flag`");
  const size_t expressions = definition.strings("expressions").size();
  const size_t results =
      lists_.empty() ? overload_.result_count() : std::max(updated_.size(), size_t{1});
  TORCH_CHECK_VALUE(expressions == results, "there are ", expressions,
                    " expressions, and the operator has ", results, " results");
  const auto& absent = definition.get<Definition::NamedReals>("absent");
  for (size_t i = 0; i < scalars.size(); ++i) {
    const auto value = absent.find(expression.scalars[i]);
    const bool required = value == absent.end();
    scalars_.push_back({required ? overload_.index(scalars[i]) : overload_.find(scalars[i]),
                        required ? std::nullopt : std::optional<at::Scalar>(value->second),
                        contains(definition.strings("promoting"), expression.scalars[i])});
  }
}

bool PointwiseKernel::gather_tensor(Call& call, const PointwiseExpression::Operand& operand,
                                    const at::Tensor& tensor) const {
  if (!is_usable(tensor, call.device)) return false;
  // The CPU kernel knows the rules for conditions of other dtypes.
  if (operand.mask && tensor.scalar_type() != ScalarType::Bool) return false;
  if (updated_.empty()) {
    call.inputs.push_back(&tensor);
    return true;
  }
  // The CPU kernel raises for other sizes and dtypes.
  const at::Tensor& first = call.inputs.empty() ? tensor : *call.inputs[0];
  const bool alike = tensor.sizes() == first.sizes() && tensor.scalar_type() == first.scalar_type();
  // It has one element where lists are updated, or is no list.
  const bool single = operand.uniform || operand.common;
  if (single ? tensor.numel() != 1 : !alike) return false;
  if (operand.common) call.wrapped.push_back(tensor.reshape({}));  // broadcasts to all sizes
  call.inputs.push_back(operand.common ? &call.wrapped.back() : &tensor);
  return true;
}

const at::Tensor& PointwiseKernel::output_of(const Call& call, const torch::jit::Stack& stack,
                                             size_t result, int64_t k) const {
  if (!updated_.empty()) return *call.inputs[updated_[result]];
  const c10::IValue* given = overload_.given(stack, result);
  return given != nullptr ? element(*given, k).toTensor() : undefined();
}

bool PointwiseKernel::gather(Call& call, const torch::jit::Stack& stack, int64_t k) const {
  // `inputs` points into it; an operand may be wrapped, and rounded after that.
  call.wrapped.reserve(2 * operands_.size());
  for (size_t i = 0; i < operands_.size(); ++i) {
    const c10::IValue& value = element(overload_.read(stack, operands_[i]), k);
    if (value.isTensor()) {
      if (!gather_tensor(call, launcher_.expression().operands[i], value.toTensor())) return false;
    } else if (value.isScalar()) {
      call.wrapped.push_back(at::native::wrapped_scalar_tensor(value.toScalar()));
      call.inputs.push_back(&call.wrapped.back());
    } else {
      return false;
    }
  }
  for (size_t i = 0; i < launcher_.expression().results.size(); ++i) {
    const at::Tensor& output = output_of(call, stack, i, k);
    if (output.defined() && !(output.is_privateuseone() && is_usable(output, call.device))) {
      return false;
    }
    // The CPU kernel knows which operators only warn.
    if (!may_overlap_ && output.defined() &&
        at::has_internal_overlap(output) == at::MemOverlap::Yes) {
      return false;
    }
    call.outputs.push_back(&output);
  }
  for (const ScalarArgument& scalar : scalars_) {
    const c10::IValue* value =
        scalar.argument >= 0 ? &element(overload_.read(stack, scalar.argument), k) : nullptr;
    if (value == nullptr || value->isNone()) {
      if (!scalar.absent.has_value()) return false;
      call.scalars.push_back(std::nullopt);
    } else if (value->isScalar()) {
      call.scalars.push_back(value->toScalar());
    } else if (value->isTensor() && value->toTensor().is_cpu() && value->toTensor().dim() == 0) {
      call.scalars.push_back(value->toTensor().item());
    } else {
      return false;
    }
  }
  return true;
}

bool PointwiseKernel::choose_types(Call& call) const {
  if (types_ == Types::kSame) {
    call.common = call.inputs[0]->scalar_type();
    for (const at::Tensor* input : call.inputs) {
      if (input->scalar_type() != call.common) return false;  // the CPU kernel raises
    }
  } else if (types_ == Types::kSelf) {
    const at::Tensor* model = call.inputs.empty() ? call.outputs[0] : call.inputs[0];
    if (!model->defined()) return false;
    call.common = model->scalar_type();
  } else {
    at::native::ResultTypeState state;
    for (size_t i = 0; i < operands_.size(); ++i) {
      if (!launcher_.expression().operands[i].mask) {
        state = at::native::update_result_type_state(*call.inputs[i], state);
      }
    }
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (scalars_[i].promotes && call.scalars[i].has_value()) {
        state = at::native::update_result_type_state(*call.scalars[i], state);
      }
    }
    call.common = at::native::result_type(state);
    if (types_ == Types::kFloat && at::isIntegralType(call.common, /*includeBool=*/true)) {
      call.common = c10::get_default_dtype_as_scalartype();
    }
  }
  if ((dtypes_ & dtype_bit(call.common)) == 0) return false;
  if (types_ == Types::kComplex) call.common = c10::toComplexType(call.common);
  if (!computes(call.device, call.common)) return false;
  call.compute = value_dtype(call.common);
  call.result = result_ == Result::kMask   ? ScalarType::Bool
                : result_ == Result::kReal ? c10::toRealValueType(call.common)
                                           : call.common;
  return true;
}

bool PointwiseKernel::accepts_scalars(const Call& call) const {
  const bool updates = !updated_.empty();
  return std::all_of(call.scalars.begin(), call.scalars.end(), [&](const auto& scalar) {
    if (!scalar.has_value()) return true;
    // CPU's vector loop and its remainder treat infinities and NaN differently in optimizers.
    return takes_number(updates ? call.compute : call.common, *scalar, strict_) &&
           (!updates || std::isfinite(scalar->toDouble()));
  });
}

// Kernels compute half precision in float32. PyTorch rounds integer tensors to half precision
// before, and for some operators (`rounded`) numbers too.
void PointwiseKernel::round_inputs(Call& call) const {
  if (!c10::isReducedFloatingType(call.common)) return;
  for (auto& scalar : call.scalars) {
    if (!rounded_ || !scalar.has_value() || !scalar->isFloatingPoint()) continue;
    scalar = call.common == ScalarType::Half
                 ? at::Scalar(static_cast<double>(scalar->to<c10::Half>()))
                 : at::Scalar(static_cast<double>(scalar->to<c10::BFloat16>()));
  }
  const bool promotes = types_ != Types::kSelf && types_ != Types::kSame;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const at::Tensor*& input = call.inputs[i];
    // Half precision holds integers of one byte.
    const bool inexact = promotes && input->dim() > 0 && input->element_size() > 1 &&
                         at::isIntegralType(input->scalar_type(), /*includeBool=*/false) &&
                         !launcher_.expression().operands[i].mask;
    if (!inexact && !(rounded_ && input->is_cpu())) continue;
    call.wrapped.push_back(input->to(call.common));
    input = &call.wrapped.back();
  }
}

// Does not allocate outputs.
void PointwiseKernel::configure(const Call& call, at::TensorIteratorConfig& config) const {
  for (const at::Tensor* output : call.outputs) {
    TORCH_CHECK(
        !output->defined() || any_output_ || c10::canCast(call.result, output->scalar_type()),
        "result type ", call.result, " can't be cast to the desired output type ",
        output->scalar_type());
  }
  for (const at::Tensor* output : call.outputs) {
    if (resizes_silently_ && output->defined() && !call.inputs.empty()) {
      output->resize_(call.inputs[0]->sizes());
    }
  }
  config.set_check_mem_overlap(!may_overlap_)
      .check_all_same_dtype(false)
      .allow_cpu_scalars(true)
      .resize_outputs(overload_.form() != Overload::Form::kInPlace)
      .declare_static_dtype_and_device(call.result, device_of(call.device));
  for (const at::Tensor* output : call.outputs) config.add_output(*output);
  for (const at::Tensor* input : call.inputs) config.add_const_input(*input);
}

bool PointwiseKernel::takes(const Call& call, const at::TensorIteratorBase& iterator) const {
  // The CPU kernel raises.
  return PointwiseLauncher::takes(iterator) && !launcher_.divides_by_zero(iterator, call.compute);
}

c10::SmallVector<at::Scalar, 8> PointwiseKernel::numbers_of(const Call& call) const {
  c10::SmallVector<at::Scalar, 8> scalars;
  for (size_t i = 0; i < scalars_.size(); ++i) {
    scalars.push_back(call.scalars[i].has_value() ? *call.scalars[i] : *scalars_[i].absent);
  }
  return scalars;
}

bool PointwiseKernel::execute(const Call& call, c10::SmallVectorImpl<at::Tensor>& results) {
  at::TensorIteratorConfig config;
  configure(call, config);
  if (overload_.form() != Overload::Form::kFunctional) return enqueue(call, config.build());
  NewOutputs iterator(call.outputs.size());
  iterator.build(config);
  if (!enqueue(call, iterator)) return false;
  for (at::Tensor& output : iterator.outputs) results.push_back(std::move(output));
  return true;
}

bool PointwiseKernel::enqueue(const Call& call, const at::TensorIteratorBase& iterator) {
  if (!takes(call, iterator)) return false;
  launcher_.enqueue(call.device, iterator, call.compute, numbers_of(call));
  return true;
}

bool PointwiseKernel::prepare(Call& call, const torch::jit::Stack& stack, int64_t k) const {
  if (!gather(call, stack, k) || !choose_types(call) || !accepts_scalars(call)) return false;
  // Kernels convert values of float32 to the output's dtype, and do not round them before.
  const bool same =
      same_output_ || (c10::isReducedFloatingType(call.common) && call.common == call.result);
  for (const at::Tensor* output : call.outputs) {
    if (same && output->defined() && output->scalar_type() != call.result) return false;
  }
  round_inputs(call);
  return true;
}

bool PointwiseKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  if (!lists_.empty()) return run_lists(stack, device);
  Call call(device);
  c10::SmallVector<at::Tensor, 2> results;
  if (!prepare(call, *stack, -1)) return false;
  if (!execute(call, results)) return false;
  overload_.finish(stack, results);
  return true;
}

bool PointwiseKernel::derive(const torch::jit::Stack& stack,
                             c10::SmallVectorImpl<at::Scalar>& numbers) const {
  if (derived_.empty()) return true;
  Evaluation evaluation(conditions_.graph());
  conditions_.set_arguments(evaluation, stack);
  return evaluates([&] {
    for (const int node : derived_) numbers.emplace_back(evaluation.number(node).as_real());
    return true;
  });
}

// Runs all elements of the lists, or declines the whole call.
bool PointwiseKernel::run_lists(torch::jit::Stack* stack, c10::DeviceIndex device) {
  const size_t count = overload_.read(*stack, lists_[0]).toListRef().size();
  if (count == 0) return false;
  for (const int list : lists_) {
    if (overload_.read(*stack, list).toListRef().size() != count) return false;
  }
  c10::SmallVector<at::Scalar, 8> derived;
  if (!derive(*stack, derived)) return false;
  at::Tensor flag;
  if (flag_ >= 0) {
    flag = overload_.read(*stack, flag_).toTensor();
    if (!is_dense_on(flag, device) || flag.numel() != 1 || flag.scalar_type() != at::kFloat) {
      return false;
    }
  }
  std::deque<Call> calls;  // not a vector: pointers into it must stay valid
  for (size_t k = 0; k < count; ++k) {
    Call& call = calls.emplace_back(device);
    if (!prepare(call, *stack, static_cast<int64_t>(k))) return false;
    for (const at::Tensor* input : call.inputs) {
      if (input->dim() > kPointwiseDimensions) return false;
    }
  }
  std::deque<PointwiseCall> prepared;
  c10::SmallVector<at::Tensor, 8> results;
  for (const Call& call : calls) {
    at::TensorIteratorConfig config;
    configure(call, config);
    prepared.push_back({config.build(), call.compute, numbers_of(call)});
    prepared.back().scalars.append(derived.begin(), derived.end());
    if (!takes(call, prepared.back().iterator)) return false;
    results.push_back(prepared.back().iterator.output(0));
  }
  launcher_.enqueue_all(device, prepared, flag.defined() ? flag.mutable_data_ptr() : nullptr);
  if (overload_.form() == Overload::Form::kFunctional) {
    stack->emplace_back(c10::List<at::Tensor>(at::TensorList(results)));
  }
  return true;
}

C10_REGISTER_CLASS(DefinitionKinds, pointwise, PointwiseKernel)

}  // namespace outboard
