// The kernel generator `pointwise_lists`: expressions over lists of tensors, updated in place, as
// in fused optimizers.
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cmath>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/pointwise_launch.h"

namespace outboard {
namespace {

bool contains(const Definition& definition, const char* field, const std::string& name) {
  const auto& names = definition.strings(field);
  return std::find(names.begin(), names.end(), name) != names.end();
}

PointwiseExpression list_expression(const Definition& definition) {
  PointwiseExpression expression;
  for (const std::string& name : definition.strings("names")) {
    expression.operands.push_back({name});
    expression.operands.back().uniform = contains(definition, "uniform", name);
    expression.operands.back().common =
        expression.operands.size() > definition.strings("lists").size();
  }
  expression.condition = definition.string("flag_if");
  for (const auto& [name, source] : definition.get<Definition::Dictionary>("once")) {
    expression.once.emplace_back(name, source);
  }
  expression.scalars = definition.strings("scalars");
  for (const auto& [name, node] : definition.named_integers("derived")) {
    expression.scalars.push_back(name);
  }
  expression.listed_scalars.resize(expression.scalars.size(), false);
  expression.results = definition.strings("expressions");
  return expression;
}

class PointwiseListsKernel final : public DefinedKernel {
 public:
  PointwiseListsKernel(const Definition& definition, const c10::FunctionSchema& schema)
      : DefinedKernel(definition, schema),
        dtypes_(definition.dtypes()),
        launcher_(list_expression(definition)) {
    const PointwiseExpression& expression = launcher_.expression();
    for (const std::string& list : definition.strings("lists"))
      lists_.push_back(overload_.index(list));
    for (const std::string& name : definition.strings("common"))
      common_.push_back(overload_.index(name));
    if (const std::string& flag = definition.string("flag"); !flag.empty())
      flag_ = overload_.index(flag);
    TORCH_CHECK_VALUE(flag_ >= 0 || expression.condition.empty(), "it has a condition and no flag");
    for (const std::string& scalar : definition.strings("scalars")) {
      scalars_.push_back(overload_.index(scalar));
    }
    for (const auto& [name, node] : definition.named_integers("derived")) {
      derived_.push_back(definition.graph->checked(node));
    }
    for (const std::string& output : definition.strings("outputs")) {
      const auto found = std::find_if(expression.operands.begin(), expression.operands.end(),
                                      [&](const auto& operand) { return operand.name == output; });
      TORCH_CHECK_VALUE(found != expression.operands.end(), "it names '", output,
                        "', which is none of the lists");
      outputs_.push_back(found - expression.operands.begin());
    }
    TORCH_CHECK_VALUE(!outputs_.empty() && outputs_.size() == expression.results.size() &&
                          lists_.size() + common_.size() == expression.operands.size(),
                      "there are not as many expressions as outputs, or names as lists");
    definition.check_names("uniform", definition.strings("names"));
  }

  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override {
    if (overload_.result_count() != 0) return false;
    std::vector<std::vector<at::Tensor>> lists;
    for (const int list : lists_) {
      lists.push_back(overload_.read(*stack, list).toTensorVector());
      if (lists.back().size() != lists[0].size()) return false;
    }
    for (const int common : common_) {
      const at::Tensor tensor = single(overload_.read(*stack, common), device);
      if (!tensor.defined()) return false;
      lists.emplace_back(lists[0].size(), tensor);
    }
    const at::Tensor flag =
        flag_ >= 0 ? single(overload_.read(*stack, flag_), device) : at::Tensor();
    if (flag_ >= 0 && !(flag.defined() && flag.scalar_type() == at::kFloat)) return false;
    for (size_t i = 0; i < lists[0].size(); ++i) {
      if (!serves(lists, i, device)) return false;
    }
    c10::SmallVector<at::Scalar, 8> scalars;
    for (const int scalar : scalars_) {
      const c10::IValue& value = overload_.read(*stack, scalar);
      if (value.isTensor()) {
        if (!value.toTensor().is_cpu() || value.toTensor().dim() != 0) return false;
        scalars.push_back(value.toTensor().item());
      } else if (value.isScalar()) {
        scalars.push_back(value.toScalar());
      } else {
        return false;
      }
    }
    for (const at::Scalar& scalar : scalars) {
      // CPU's vector loop and its remainder treat infinities and NaN differently.
      if (!std::isfinite(scalar.toDouble()) || !takes_number(at::kFloat, scalar)) return false;
    }
    if (!derive(*stack, scalars)) return false;
    std::deque<PointwiseCall> calls;
    for (size_t i = 0; i < lists[0].size(); ++i) {
      if (lists[0][i].numel() == 0) continue;
      calls.push_back({iterator_of(lists, i), value_dtype(lists[0][i].scalar_type()), scalars});
    }
    launcher_.enqueue_all(device, calls, flag.defined() ? flag.mutable_data_ptr() : nullptr);
    return true;
  }

 private:
  // A tensor of one element as a 0-d tensor; undefined for anything else.
  static at::Tensor single(const c10::IValue& value, c10::DeviceIndex device) {
    if (!value.isTensor() || !is_dense_on(value.toTensor(), device)) return {};
    return value.toTensor().numel() == 1 ? value.toTensor().reshape({}) : at::Tensor();
  }

  bool derive(const torch::jit::Stack& stack, c10::SmallVectorImpl<at::Scalar>& scalars) const {
    if (derived_.empty()) return true;
    Evaluation evaluation(conditions_.graph());
    conditions_.set_arguments(evaluation, stack);
    return evaluates([&] {
      for (const int node : derived_) scalars.emplace_back(evaluation.number(node).as_real());
      return true;
    });
  }

  bool serves(const std::vector<std::vector<at::Tensor>>& lists, size_t i,
              c10::DeviceIndex device) const {
    const at::Tensor& first = lists[0][i];
    if ((dtypes_ & dtype_bit(first.scalar_type())) == 0) return false;
    if (first.dim() > kPointwiseDimensions) return false;
    for (size_t k = 0; k < lists.size(); ++k) {
      const at::Tensor& tensor = lists[k][i];
      const bool uniform = launcher_.expression().operands[k].uniform;
      if (uniform && tensor.defined() && tensor.numel() != 1) return false;
      if (!is_dense_on(tensor, device)) {
        if (!tensor.defined() || !tensor.is_cpu() || tensor.dim() != 0) return false;
      } else if (!computes(device, tensor.scalar_type())) {
        return false;
      }
      // The CPU kernel raises for other sizes and dtypes.
      if (k < lists_.size() && !uniform &&
          (tensor.sizes() != first.sizes() || tensor.scalar_type() != first.scalar_type())) {
        return false;
      }
    }
    return std::all_of(outputs_.begin(), outputs_.end(), [&](size_t output) {
      return is_dense_on(lists[output][i], device) && lists[output][i].sizes() == first.sizes() &&
             first.numel() < (int64_t{1} << 28) &&
             at::has_internal_overlap(lists[output][i]) != at::MemOverlap::Yes;
    });
  }

  at::TensorIterator iterator_of(const std::vector<std::vector<at::Tensor>>& lists,
                                 size_t i) const {
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false)
        .check_all_same_dtype(false)
        .allow_cpu_scalars(true)
        .resize_outputs(false);
    for (const size_t output : outputs_) config.add_output(lists[output][i]);
    for (const auto& list : lists) config.add_const_input(list[i]);
    return config.build();
  }

  const uint64_t dtypes_;
  std::vector<int> lists_;
  std::vector<int> common_;
  int flag_ = -1;
  std::vector<int> scalars_;
  std::vector<int> derived_;
  std::vector<size_t> outputs_;
  PointwiseLauncher launcher_;
};

OUTBOARD_DEFINITION_KIND("pointwise_lists", PointwiseListsKernel);

}  // namespace
}  // namespace outboard
