// The kernel generator `reduction`: a state per result starts as an identity, accumulates elements,
// merges with other states and is converted to results.
//
// Properties of a definition:
//   state        fields, "T name" for values of the compute dtype and "I name" for indices (int)
//   initial, step, merge
//                statements in OpenCL C that hold for scalars and vectors alike: on `s`, on `s`
//                with the element `x` and its place `i`, on `s` with a later state `t`. T, M, C(x)
//                are as in scalar functions; OB_LOWEST and OB_HIGHEST are the limits of the compute
//                dtype; OB_INDEX_MASK(m) makes a mask of values one of indices, OB_VALUE_MASK(m)
//                the other way round
//   results      an expression of the scalar `s` and of `n`, the number of elements, per result
//   indices      a flag per result: it is an index
//   types        "same" (default): results have the dtype of the input; "promote": integers become
//                int64; "float": floating-point dtypes only; "test": bool, but uint8 for uint8
//   scalars      names of arguments that are numbers, and of parameters in the statements
//   absent       their values for None
//   ordered      indices count in the logical order of the input (default: no indices are used)
//   exceeds      one of the scalars; a warning unless the number of elements exceeds it
//   all_if_empty an empty list of dimensions means all of them; otherwise none
//   widens       calls whose argument `dtype` cannot hold every value of the input are declined
//   empty        the number that no elements give; without it such calls are declined
//   dtypes       bits of the dtypes of inputs that are served
//   source       the kernels
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/source_writer.h"
#include "runtime/programs/program.h"

namespace at {
struct TensorIteratorBase;
}

namespace outboard {

class ReductionKernel final : public DefinedKernel {
 public:
  ReductionKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Types : uint8_t { kSame, kPromote, kFloat, kTest };
  struct Call;
  // Distinguishes kernels.
  struct Key {
    c10::DeviceIndex device;
    bool wide;  // 64-bit indices
    at::ScalarType input, compute, result;
    bool operator==(const Key& other) const = default;
  };
  struct Variant {
    Kernel* along;
    Kernel* across;
    Kernel* combine;
    // Null if work-items of a group do not share work.
    Kernel* along_group;
    Kernel* across_group;
    Kernel* combine_group;
    Kernel* combine_across;
    int width;
  };

  bool choose_dimensions(Call& call, const torch::jit::Stack& stack) const;
  bool choose_types(Call& call, const torch::jit::Stack& stack) const;
  bool read_scalars(Call& call, const torch::jit::Stack& stack) const;
  const Variant& variant(const Call& call, bool wide);
  bool enqueue(const Call& call, const at::TensorIteratorBase& iterator);

  ReductionDescription description_;
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
  KernelTable<Key, Variant> variants_;
};

}  // namespace outboard
