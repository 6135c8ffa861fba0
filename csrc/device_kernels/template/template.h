// Kernel templates: kernels in OpenCL C, with a description of their operands, results, parameters
// and launches.
//
// docs/kernels.md describes the fields of a definition. Each step of a call uses some:
//   template.cpp          reading the definition, and the order of the steps
//   template_tensors.cpp  served calls, dtypes, results and temporaries
//   template_launch.cpp   parameters, programs and launches
#pragma once

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/definitions/meta_call.h"
#include "device_kernels/kernel_table.h"
#include "runtime/generator.h"
#include "runtime/programs/launch.h"

namespace outboard {

// Limits: dimensions of a tensor with sizes and strides, numbers of a list.
constexpr int kTemplateDimensions = 8;
constexpr int kTemplateList = 16;

class TemplateKernel final : public DefinedKernel {
 public:
  TemplateKernel(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  struct Tensor {
    std::string name;
    int argument = -1;  // of operands that are arguments
    int value = -1;     // of operands, the node
    bool optional = false;
    bool items = false;
    bool strided = false;
    int dtype = -1;        // a node whose value has it; -1: that of the first tensor
    uint64_t accepts = 0;  // bits of dtypes; 0: that of the first tensor
    int like = -1;         // an operand, by index, and so the next
    int memory_format = -1;
    // Nodes; -1 where there is none.
    int sizes = -1;      // a list for results, a number for temporaries
    int strides = -1;    // -1: as `meta`, `like` or `memory_format` say
    int wanted = -1;     // -1: yes
    int initial = -1;    // a number that fills it before the first launch
    int starts_as = -1;  // an operand that is copied into it before
    int name_node = -1;
  };
  struct Named {
    std::string name;
    int node;
  };
  struct Launch {
    std::string kernel;
    int items;
    int when;    // -1: always
    int repeat;  // -1: once
    bool groups;
  };
  struct Read {
    int tensor;
    int node;  // -1: not needed
  };
  // The device, 64-bit indices; dtypes, constants and lanes.
  using Key = std::tuple<c10::DeviceIndex, bool, c10::SmallVector<int64_t, 16>>;
  struct Call {
    struct Planned {
      size_t launch;
      uint64_t items;
      uint64_t repeat;
    };

    Call(const ExpressionGraph& graph, c10::DeviceIndex device_) : device(device_), values(graph) {}

    c10::DeviceIndex device;
    std::vector<at::Tensor> tensors;  // as kernels see them
    std::vector<at::Tensor> results;  // as they are returned
    c10::SmallVector<at::ScalarType, 8> dtypes;
    Evaluation values;
    std::vector<at::Tensor> meta;  // results by PyTorch's Meta kernel
    std::vector<at::Scalar> scalars;
    PhiloxState philox{0, 0};
    // Parameters and constants of the kernels in their order, and the launches.
    c10::SmallVector<int64_t, 16> numbers;
    c10::SmallVector<double, 8> reals;
    c10::SmallVector<c10::SmallVector<int64_t, 6>, 2> lists;
    c10::SmallVector<int64_t, 8> constants;
    c10::SmallVector<Planned, 4> launches;
    int lanes = 1;  // of a work-group
    bool wide = false;
  };

  int tensor_index(const std::string& name) const;
  // -1: the definition does not use the name.
  int node_of_name(const std::string& name) const;
  static std::vector<Named> named_nodes(const Definition& definition, const char* field);
  void read_operands(const Definition& definition);
  void read_made_tensors(const Definition& definition);
  void read_launches(const Definition& definition);

  bool prepare(Call& call, const torch::jit::Stack& stack) const;
  bool take_operands(Call& call, const torch::jit::Stack& stack) const;
  bool take_operand_dtypes(Call& call) const;
  at::ScalarType made_dtype(Call& call, const torch::jit::Stack& stack, size_t tensor) const;
  bool choose_dtypes(Call& call, const torch::jit::Stack& stack) const;
  bool given_results_fit(const Call& call, const torch::jit::Stack& stack) const;
  bool make_results(Call& call, const torch::jit::Stack& stack) const;
  void make_operands_dense(Call& call) const;
  bool make_temporaries(Call& call) const;
  void initialize(Call& call, size_t tensor) const;
  at::ScalarType compute_dtype(const Call& call) const;
  const ProgramKernels& kernels(const Call& call);
  // Evaluates the launches [first, last) and their parameters. False if values do not fit 32 bits,
  // or 64 bits in a call that is `wide`.
  bool plan(Call& call, size_t first, size_t last) const;
  bool reserve_random(Call& call, const torch::jit::Stack& stack) const;
  void read_values(Call& call) const;
  void set_facts(Call& call) const;
  void enqueue(Call& call);
  void add_arguments(const Call& call, LaunchArguments& arguments);

  const std::string location_;  // of the definition in Python
  const std::string source_;
  const uint64_t dtypes_;
  const bool vectors_;
  const bool resizes_silently_;
  const std::vector<int> number_arguments_;
  const at::ScalarType compute_;  // Undefined: of a tensor
  size_t compute_of_ = 0;
  std::vector<Tensor> tensors_;  // operands, results, temporaries
  size_t operand_count_ = 0;
  std::vector<int> unread_;  // tensor arguments that are no operands
  std::vector<int> scalars_;
  std::vector<std::string> scalar_names_;
  std::vector<Named> numbers_;
  std::vector<Named> reals_;
  std::vector<Named> lists_;
  std::vector<Named> constants_;
  std::vector<Launch> launches_;
  std::vector<Read> reads_;
  size_t read_after_ = 0;
  int lanes_ = -1;  // of a work-group
  int random_ = -1;
  // Nodes of the names that `set_facts` sets.
  int group_lanes_;
  int deterministic_;
  int processors_;
  int matrix_units_;
  int value_dtype_;
  int generator_ = -1;
  std::unique_ptr<const MetaCall> meta_;
  KernelTable<Key, ProgramKernels> table_;
  const DefinedAssert assert_;
};

}  // namespace outboard
