// The kernel generator `pointwise`: an expression of scalar functions over broadcast operands, with
// a kernel per combination of dtypes and class of layouts.
//
// A definition's properties:
//   operands     names of arguments: tensors, or numbers that promote like 0-dim tensors, or lists
//                of either: then the expression is computed for each element
//   names        what the expressions call them
//   masks        those of `names` that hold conditions, of bool; they take no part in promotion
//   scalars      names of further arguments that are numbers or flags
//   scalar_names what the expressions call these
//   absent       per scalar name: the number where the argument is None or the overload does not
//                have it; without an entry the call is declined
//   promoting    those of `scalar_names` that take part in promotion
//   expressions  one per result, in OpenCL C with functions of the table as ob_<name>(...)
//   result       "value" (default), "mask" (of a comparison) or "real" (of complex values)
//   types        "promote" (default): the common dtype; "float": the same, integers become the
//                default dtype; "complex": the complex dtype of the common one; "self": the dtype
//                of the first operand, else of the given output; "same": the dtype of all operands,
//                calls with different ones are declined
//   dtypes       bits of the supported common dtypes
//   meta         a functional overload whose meta function checks the call with PyTorch's messages,
//                such as "aten::heaviside"; for checks of more than sizes and dtypes
//   any_output   results may be cast to any dtype of a given output
//   same_output  calls are declined if a given output has another dtype than the result
//   divisor      one of `names`, the divisor of integers: if an element of it is 0, the device-side
//                assert is set and the next wait raises RuntimeError
//   scalar       the expressions are valid for scalars only, not for vectors
//   may_overlap  the output may overlap itself, as in fills
//   resizes_silently
//                outputs get the size of the first operand without PyTorch's warning
//   rounded      numbers are rounded to the common dtype first, also where values are wider
//   strict       scalars must be of a kind that the dtype can hold, as for alpha
#pragma once

#include <c10/util/SmallVector.h>

#include <optional>
#include <string>
#include <vector>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/definitions/meta_call.h"
#include "device_kernels/pointwise/pointwise_launch.h"

namespace outboard {

class PointwiseKernel final : public DefinedKernel {
 public:
  PointwiseKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Types : uint8_t { kPromote, kFloat, kComplex, kSelf, kSame };
  struct Operand {
    int argument;
    bool mask;
  };
  struct ScalarArgument {
    int argument;                      // -1: the overload does not have it
    std::optional<at::Scalar> absent;  // nullopt: the call is declined
    bool promotes;
  };
  struct Call;

  // `k`: index of the element in an overload over lists, else -1.
  bool prepare(Call& call, const torch::jit::Stack& stack, int64_t k) const;
  bool gather(Call& call, const torch::jit::Stack& stack, int64_t k) const;
  bool choose_types(Call& call) const;
  bool accepts_scalars(const Call& call) const;
  void round_scalars(Call& call) const;
  // Resizes and checks outputs.
  void configure(const Call& call, at::TensorIteratorConfig& config) const;
  bool takes(const Call& call, const at::TensorIteratorBase& iterator) const;
  c10::SmallVector<at::Scalar, 8> numbers_of(const Call& call) const;
  bool execute(const Call& call, c10::SmallVectorImpl<at::Tensor>& results);
  bool enqueue(const Call& call, const at::TensorIteratorBase& iterator);
  bool run_lists(torch::jit::Stack* stack, c10::DeviceIndex device);

  std::vector<Operand> operands_;
  std::vector<ScalarArgument> scalars_;
  const PointwiseSource::Result result_;
  const Types types_;
  const uint64_t dtypes_;
  const bool any_output_;
  const bool same_output_;
  const bool may_overlap_;
  const bool resizes_silently_;
  const bool strict_;
  const bool rounded_;
  std::optional<MetaCall> meta_;
  bool lists_ = false;  // one call per list element, as in _foreach_add
  PointwiseLauncher launcher_;
};

}  // namespace outboard
