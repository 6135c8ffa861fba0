// The template engine: kernels written in OpenCL C, and a description of what surrounds them: which
// tensors they read and write, of which sizes and dtypes, and how many work items each launch has.
//
// A call goes through a row's properties, besides those that every row may have (engine.h), in the
// order in which they stand here; docs/kernels.md has an example. An expression is one of
// device_kernels/expressions/expression.h. Its names are the arguments of the overload (without
// those of out=), the results once they have sizes, those of `let`, `group_lanes`, the work items
// of a work-group in launches of groups, and `deterministic`, whether
// torch.use_deterministic_algorithms is on.
//
// Which calls the row serves (template_operands.cpp)
//   operands       tensor arguments that kernels read; "weight?" may be None, and
//                  "index=indices[-1]" is called index, an element of a list of tensors; as a value
//                  of an expression such a list says which of its tensors are given
//   scalars        arguments that are numbers: parameters of type V (items where items are moved)
//   let            "name = expression", in order; earlier names may be used
//   conditions     expressions without which a call is declined
//   dtypes         bits of the dtypes that are served: of the first operand, or, without operands,
//                  of the first result
//   accepts        per further operand the names of its dtypes, "int32 int64", or "any"; an operand
//                  without an entry must have the dtype of the first one
//   compute        what has the dtype of values, V, where it is not the first tensor: the name of
//                  another one, or a dtype's name
//   items_of       tensors whose elements are moved as whole items, whatever their dtype: all
//                  tensors with the dtype of the first one, or none
//   strided        tensors that come with sizes and strides (at most 8 dimensions) instead of dense
//
// What it makes (template_results.cpp)
//   meta           a functional overload whose Meta kernel checks the call with PyTorch's messages
//                  and says sizes, strides and dtypes of the results: "aten::gather"
//   results        names of the results, in order; none may be an argument of the functional form
//   sizes          per result an expression, without `meta`
//   result_dtypes  per result the name of an operand or a temporary, whose dtype it has (default:
//                  the first operand), "dtype" for the argument of that name, "value" for the
//                  dtype of values, or a dtype's name
//   like           per result the name of an operand whose strides it gets, as in empty_like, or ""
//   strides        per result name an expression: a list, or an empty one for row-major order
//   wanted         per result name an expression: 0, and the result is an undefined tensor
//   resizes_silently
//                  given results of another size are resized without a warning
//   temporaries    names of further tensors
//   temporary_sizes, temporary_dtypes
//                  expressions for their numbers of elements, and as in result_dtypes
//   initial        per result or temporary what it holds before: a number, or an operand's name
//
// What kernels get besides tensors and scalars (template_source.cpp, template_launch.cpp)
//   source         text of the kernels
//   vectors        kernels use vectors, T, of as many elements as suit the device
//   constants      "NAME = expression": integers that the compiler sees
//   numbers        "name = expression": parameters of type ob_index, which has 64 bits where a
//                  tensor or a number needs more than 32
//   reals          "name = expression": parameters of type R
//   lists          "name = expression": parameters of type ob_list: up to 16 numbers, name.at[i]
//   random         expression: draws of random numbers to reserve; gives ob_seed and ob_offset
//   reports        kernels say OB_REPORT where a value is wrong; the next wait then raises this:
//                  "IndexError" or "RuntimeError", and words after ": " if they are not to be
//                  "index out of range" (runtime/programs/kernel_faults.h)
//
// What is launched (template_launch.cpp), an entry per launch
//   kernels        name
//   items          expression for its work items
//   groups         "1" if items are work-groups
//   when, repeat   expressions: whether (default 1) and how often (default 1; ob_step counts)
//   read_after, reads
//                  after so many launches the first elements of temporaries are read, "name =
//                  temporary"; results get their sizes only then
//
// What a text can use is said in torch_outboard/kernels/template.cl.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_kernels/engine.h"
#include "device_kernels/expressions/expression.h"
#include "device_kernels/kernel_table.h"
#include "device_kernels/rows/meta_call.h"
#include "device_kernels/template/template_source.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/programs/launch.h"

namespace outboard {

class TemplateKernel final : public EngineKernel {
 public:
  TemplateKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  struct Tensor {
    std::string name;
    int argument = -1;               // of operands; -1: the functional form has no such argument
    std::optional<int64_t> element;  // of a list of tensors; negative from its end
    bool optional = false;
    bool items = false;
    bool strided = false;
    int dtype_of = -1;  // another tensor, by index in tensors_
    at::ScalarType dtype = at::ScalarType::Undefined;
    bool from_argument = false;  // the dtype is the argument `dtype`
    bool of_values = false;      // the dtype is that of values
    uint64_t accepts = 0;        // 0: as the first tensor
    int like = -1;               // an operand, by index
    Expression sizes;            // a list for results, a number for temporaries
    Expression strides;          // empty: as `meta` or `like` say
    Expression wanted;           // empty: yes
    // What it holds before the first launch: an operand by index, or one of these.
    static constexpr int kWhatWasThere = -1;
    static constexpr int kNumber = -2;
    int initial = kWhatWasThere;
    double initial_number = 0;
    int slot = -1;
  };
  struct Named {
    std::string name;
    Expression expression;
    int slot;
  };
  struct Launch {
    std::string kernel;
    Expression items;
    Expression when;
    Expression repeat;
    bool groups;
  };
  struct Read {
    int tensor;
    int slot;
  };
  struct Key {
    c10::DeviceIndex device;
    bool wide;
    c10::SmallVector<int64_t, 16> values;  // dtypes, then constants
    bool operator==(const Key& other) const {
      return device == other.device && wide == other.wide && values == other.values;
    }
  };
  struct Kernels {
    std::vector<Kernel*> launches;
  };
  struct Call;

  // A slot of expressions.
  int add_name(const std::string& name, ExpressionKinds kinds);
  int tensor_index(const std::string& name) const;
  void set_dtype(Tensor& tensor, const std::string& text);
  std::vector<Named> parse_named(const std::vector<std::string>& texts, ExpressionKinds kinds,
                                 bool with_slots);
  Expression parse(const std::string& text, ExpressionKinds kinds) const;

  bool prepare(Call& call, const torch::jit::Stack& stack) const;
  bool read_operands(Call& call, const torch::jit::Stack& stack) const;
  bool take_operand_dtypes(Call& call) const;
  at::ScalarType made_dtype(const Call& call, const torch::jit::Stack& stack, size_t tensor) const;
  bool choose_dtypes(Call& call, const torch::jit::Stack& stack) const;
  bool given_results_fit(const Call& call, const torch::jit::Stack& stack) const;
  bool make_results(Call& call, const torch::jit::Stack& stack) const;
  void make_operands_dense(Call& call) const;
  bool make_temporaries(Call& call) const;
  void initialize(Call& call, size_t tensor) const;
  at::ScalarType compute_dtype(const Call& call) const;
  const Kernels& kernels(const Call& call);
  // What the launches need to know. False: the row's expressions cannot say that.
  bool plan(Call& call, size_t first, size_t last) const;
  bool reserve_random(Call& call, const torch::jit::Stack& stack) const;
  void read_values(Call& call) const;
  void enqueue(Call& call);
  KernelFault& fault(c10::DeviceIndex device);
  void add_arguments(const Call& call, LaunchArguments& arguments);
  static void add_index(const Call& call, LaunchArguments& arguments, int64_t number);

  const std::string source_;
  const uint64_t dtypes_;
  const bool vectors_;
  const bool resizes_silently_;
  const std::string reports_;
  at::ScalarType compute_ = at::ScalarType::Undefined;
  size_t compute_of_ = 0;
  std::vector<std::pair<std::string, ExpressionKinds>> names_;  // of slots: arguments first
  std::vector<Tensor> tensors_;                                 // operands, results, temporaries
  size_t operand_count_ = 0;
  std::vector<Expression> conditions_;
  std::vector<Named> let_;
  std::vector<int> scalars_;
  std::vector<std::string> scalar_names_;
  std::vector<Named> numbers_;
  std::vector<Named> reals_;
  std::vector<Named> lists_;
  std::vector<Named> constants_;
  std::vector<Launch> launches_;
  std::vector<Read> reads_;
  size_t read_after_ = 0;
  Expression random_;
  int generator_ = -1;
  std::optional<MetaCall> meta_;
  KernelTable<Key, Kernels> table_;
  KernelTable<c10::DeviceIndex, KernelFault*> faults_;
};

}  // namespace outboard
