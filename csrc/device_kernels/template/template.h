// The template engine: kernels written in OpenCL C, and a description of what surrounds them: which
// tensors they read and write, of which sizes and dtypes, and how many work items each launch has.
//
// docs/rows.md describes the properties of a row, in the order in which a call goes through them:
// which calls it serves (template_operands.cpp), what it makes (template_results.cpp), what kernels
// get besides tensors and scalars (template_source.cpp, template_launch.cpp), and what is launched
// (template_launch.cpp). Those that every row may have: engine.h.
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
#include "device_kernels/template/reported_fault.h"
#include "device_kernels/template/template_source.h"
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
    int like = -1;               // an operand, by index, and so the next
    int memory_format = -1;
    Expression sizes;    // a list for results, a number for temporaries
    Expression strides;  // empty: as `meta`, `like` or `memory_format` say
    Expression wanted;   // empty: yes
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
    c10::SmallVector<int64_t, 16> values;  // dtypes, constants, lanes
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
  void add_arguments(const Call& call, LaunchArguments& arguments);
  static void add_index(const Call& call, LaunchArguments& arguments, int64_t number);

  const std::string source_;
  const uint64_t dtypes_;
  const bool vectors_;
  const bool resizes_silently_;
  const std::vector<int> number_arguments_;
  at::ScalarType compute_ = at::ScalarType::Undefined;
  size_t compute_of_ = 0;
  std::vector<std::pair<std::string, ExpressionKinds>> names_;  // of slots: arguments first
  std::vector<Tensor> tensors_;                                 // operands, results, temporaries
  size_t operand_count_ = 0;
  std::vector<int> unread_;  // tensor arguments that are no operands
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
  Expression most_lanes_;  // of a work-group
  Expression random_;
  int generator_ = -1;
  std::unique_ptr<const MetaCall> meta_;
  KernelTable<Key, Kernels> table_;
  const ReportedFault fault_;
};

}  // namespace outboard
