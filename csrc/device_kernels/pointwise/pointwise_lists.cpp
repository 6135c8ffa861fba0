// The engine `pointwise_lists`: expressions over lists of tensors that are updated in place, one
// launch per tensor, as in fused optimizers.
//
// A row's properties:
//   lists        names of arguments that are lists of tensors, of one length
//   names        what the expressions call their elements (default: as in the schema)
//   outputs      those of `names` that are written, one per expression
//   scalars, scalar_names  numbers and flags, as in pointwise.h; 0-dim tensors will do, too
//   derived      further numbers, computed in double precision from one of the scalars: name, and
//                "1-<scalar>" or "log(<scalar>)"
//   uniform      those of `names` whose tensors have one element each
//   once         name and expression, for scalars, with plain functions of OpenCL C: what is
//   computed
//                of uniform elements and numbers once for many elements
//   expressions  OpenCL C with functions of the table as ob_<name>(...)
//   dtypes       bits of the dtypes of the first list that are served
#include <ATen/TensorIterator.h>
#include <c10/util/SmallVector.h>

#include <algorithm>
#include <cmath>

#include "device_kernels/engine.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/pointwise_launch.h"

namespace outboard {
namespace {

bool contains(const Row& row, const char* property, const std::string& name) {
  if (!row.has(property)) return false;
  const auto names = row.texts(property);
  return std::find(names.begin(), names.end(), name) != names.end();
}

PointwiseExpression list_expression(const Row& row) {
  PointwiseExpression expression;
  for (const std::string& name : row.has("names") ? row.texts("names") : row.texts("lists")) {
    expression.operands.push_back({name});
    expression.operands.back().uniform = contains(row, "uniform", name);
  }
  if (row.has("once")) {
    for (const auto& [name, text] : row.dictionary("once"))
      expression.once.emplace_back(name, text);
  }
  expression.scalars = row.has("scalar_names") ? row.texts("scalar_names") : row.texts("scalars");
  for (const auto& [name, text] : row.dictionary("derived")) expression.scalars.push_back(name);
  expression.results = row.texts("expressions");
  return expression;
}

class PointwiseListsKernel final : public EngineKernel {
 public:
  PointwiseListsKernel(const Row& row, const c10::FunctionSchema& schema)
      : EngineKernel(row, schema),
        dtypes_(static_cast<uint64_t>(row.integer("dtypes", -1))),
        launcher_(list_expression(row)) {
    const PointwiseExpression expression = list_expression(row);
    for (const std::string& list : row.texts("lists")) lists_.push_back(overload_.index(list));
    for (const std::string& scalar : row.texts("scalars")) {
      scalars_.push_back(overload_.index(scalar));
    }
    for (const auto& [name, text] : row.dictionary("derived")) derive(text, expression.scalars);
    for (const std::string& output : row.texts("outputs")) {
      const auto found = std::find_if(expression.operands.begin(), expression.operands.end(),
                                      [&](const auto& operand) { return operand.name == output; });
      TORCH_CHECK_VALUE(found != expression.operands.end(), "it names '", output,
                        "', which is none of the lists");
      outputs_.push_back(found - expression.operands.begin());
    }
    TORCH_CHECK_VALUE(!outputs_.empty() && outputs_.size() == expression.results.size() &&
                          lists_.size() == expression.operands.size(),
                      "there are not as many expressions as outputs, or names as lists");
    row.check_names("uniform", row.has("names") ? row.texts("names") : row.texts("lists"));
  }

  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override {
    if (overload_.result_count() != 0) return false;
    std::vector<std::vector<at::Tensor>> lists;
    for (const int list : lists_) {
      lists.push_back(overload_.read(*stack, list).toTensorVector());
      if (lists.back().size() != lists[0].size()) return false;
    }
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
    for (const Derived& derived : derived_) {
      const double of = scalars[derived.scalar].toDouble();
      scalars.push_back(at::Scalar(derived.logarithm ? std::log(of) : 1 - of));
    }
    for (size_t i = 0; i < lists[0].size(); ++i) {
      if (lists[0][i].numel() != 0) enqueue(lists, i, device, scalars);
    }
    return true;
  }

 private:
  struct Derived {
    size_t scalar;
    bool logarithm;
  };

  void derive(const std::string& text, const std::vector<std::string>& names) {
    for (size_t i = 0; i < scalars_.size(); ++i) {
      if (text == "1-" + names[i]) {
        derived_.push_back({i, false});
        return;
      }
      if (text == "log(" + names[i] + ")") {
        derived_.push_back({i, true});
        return;
      }
    }
    TORCH_CHECK_VALUE(false, "it derives '", text,
                      "', which is neither 1-<scalar> nor log(<scalar>)");
  }

  bool serves(const std::vector<std::vector<at::Tensor>>& lists, size_t i,
              c10::DeviceIndex device) const {
    const at::Tensor& first = lists[0][i];
    if (((dtypes_ >> static_cast<int>(first.scalar_type())) & 1) == 0) return false;
    if (first.dim() > kPointwiseDimensions) return false;
    for (size_t k = 0; k < lists.size(); ++k) {
      const at::Tensor& tensor = lists[k][i];
      const bool uniform = launcher_.expression().operands[k].uniform;
      if (uniform && tensor.defined() && tensor.numel() != 1) return false;
      if (!is_dense_on(tensor, device)) {
        if (!tensor.defined() || !tensor.is_cpu() || tensor.dim() != 0) return false;
      } else if (!computes(device, tensor.scalar_type()) ||
                 !(tensor.dim() == 0 || tensor.sizes() == first.sizes())) {
        return false;
      }
    }
    return std::all_of(outputs_.begin(), outputs_.end(), [&](size_t output) {
      return is_dense_on(lists[output][i], device) && lists[output][i].sizes() == first.sizes() &&
             first.numel() < (int64_t{1} << 28);
    });
  }

  void enqueue(const std::vector<std::vector<at::Tensor>>& lists, size_t i, c10::DeviceIndex device,
               c10::ArrayRef<at::Scalar> scalars) {
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(false)
        .check_all_same_dtype(false)
        .allow_cpu_scalars(true)
        .resize_outputs(false);
    for (const size_t output : outputs_) config.add_output(lists[output][i]);
    for (const auto& list : lists) config.add_const_input(list[i]);
    const at::TensorIterator iterator = config.build();
    launcher_.enqueue(device, iterator, value_dtype(lists[0][i].scalar_type()), scalars);
  }

  const uint64_t dtypes_;
  std::vector<int> lists_;
  std::vector<int> scalars_;
  std::vector<Derived> derived_;
  std::vector<size_t> outputs_;
  PointwiseLauncher launcher_;
};

OUTBOARD_ENGINE("pointwise_lists", PointwiseListsKernel);

}  // namespace
}  // namespace outboard
