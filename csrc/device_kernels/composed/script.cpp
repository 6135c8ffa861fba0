#include "device_kernels/composed/script.h"

#include <ATen/core/List.h>
#include <c10/util/Exception.h>
#include <c10/util/SmallVector.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/frontend/resolver.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>

#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device_kernels/expressions/expression_number.h"

namespace outboard {

namespace jit = torch::jit;

struct ScriptStep {
  enum class Kind : uint8_t {
    kConstant,
    kOperation,
    kIf,
    kLoop,
    kList,
    kTuple,
    kListUnpack,
    kTupleUnpack,
    kRaise,
    kArithmetic
  };
  using Arithmetic = ExpressionNumber (*)(const ExpressionNumber&, const ExpressionNumber&);

  struct Input {
    int place;
    bool last;  // nobody reads it after this step
  };

  Kind kind;
  std::vector<Input> inputs;
  std::vector<int> outputs;
  mutable std::optional<jit::Operation> operation;  // its call operator is not const
  c10::IValue constant;
  c10::TypePtr element;                 // of kList
  c10::SmallVector<size_t, 2> written;  // inputs that the operation writes to
  Arithmetic arithmetic = nullptr;      // of integers; with one input it gets that twice
  std::vector<ScriptBlock> blocks;
};

struct ScriptBlock {
  std::vector<int> inputs;
  std::vector<ScriptStep> steps;
  std::vector<int> outputs;
};

namespace {

struct AssertionFailed {};

struct Registers : std::vector<c10::IValue> {
  using std::vector<c10::IValue>::vector;
  std::vector<const c10::StorageImpl*> arguments;  // storages
  bool wrote_arguments = false;
};
using Kind = ScriptStep::Kind;

// Operations of integers, which PyTorch lets wrap, or ends the process with.
ScriptStep::Arithmetic arithmetic_of(const jit::Node* node) {
  using Number = const ExpressionNumber&;
  static const std::unordered_map<std::string, ScriptStep::Arithmetic> known = {
      {"aten::add.int", [](Number a, Number b) { return a + b; }},
      {"aten::sub.int", [](Number a, Number b) { return a - b; }},
      {"aten::mul.int", [](Number a, Number b) { return a * b; }},
      {"aten::floordiv.int", [](Number a, Number b) { return a.floor_divide(b); }},
      {"aten::remainder.int", [](Number a, Number b) { return a.remainder(b); }},
      {"aten::neg.int", [](Number a, Number) { return -a; }},
      {"aten::abs.int", [](Number a, Number) { return a.abs(); }},
  };
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr) return nullptr;
  const auto found = known.find(schema->name() + "." + schema->overload_name());
  return found != known.end() ? found->second : nullptr;
}

class Translator {
 public:
  ScriptBlock translate(jit::Block* block) {
    ScriptBlock result;
    for (const jit::Value* input : block->inputs()) result.inputs.push_back(place(input));
    for (jit::Node* node : block->nodes()) result.steps.push_back(translate(node));
    for (const jit::Value* output : block->outputs()) result.outputs.push_back(place(output));
    return result;
  }
  size_t registers() const { return places_.size(); }

 private:
  int place(const jit::Value* value) {
    return places_.emplace(value, static_cast<int>(places_.size())).first->second;
  }

  // Only within one block: what a nested block uses may be used again.
  static bool is_last_use(const jit::Value* value, const jit::Node* node) {
    if (value->node()->owningBlock() != node->owningBlock()) return false;
    for (const jit::Use& use : value->uses()) {
      if (use.user->owningBlock() != node->owningBlock()) return false;
      if (use.user != node && !use.user->isBefore(node)) return false;
    }
    return true;
  }

  ScriptStep translate(jit::Node* node) {
    ScriptStep step{};
    for (size_t i = 0; i < node->inputs().size(); ++i) {
      const jit::Value* value = node->inputs()[i];
      bool last = is_last_use(value, node);
      for (size_t later = i + 1; later < node->inputs().size(); ++later) {
        last = last && node->inputs()[later] != value;
      }
      step.inputs.push_back({place(value), last});
    }
    for (const jit::Value* output : node->outputs()) step.outputs.push_back(place(output));
    for (jit::Block* block : node->blocks()) step.blocks.push_back(translate(block));
    switch (node->kind()) {
      case c10::prim::Constant:
        step.kind = Kind::kConstant;
        // The name of a function that has been put in its place has no value.
        step.constant = jit::toIValue(node->output()).value_or(c10::IValue());
        break;
      case c10::prim::If:
        step.kind = Kind::kIf;
        break;
      case c10::prim::Loop:
        step.kind = Kind::kLoop;
        break;
      case c10::prim::ListConstruct:
        step.kind = Kind::kList;
        step.element = node->output()->type()->expectRef<c10::ListType>().getElementType();
        break;
      case c10::prim::TupleConstruct:
        step.kind = Kind::kTuple;
        break;
      case c10::prim::ListUnpack:
        step.kind = Kind::kListUnpack;
        break;
      case c10::prim::TupleUnpack:
        step.kind = Kind::kTupleUnpack;
        break;
      case c10::prim::RaiseException:
        step.kind = Kind::kRaise;
        break;
      default:
        step.arithmetic = arithmetic_of(node);
        if (step.arithmetic != nullptr) {
          step.kind = Kind::kArithmetic;
          break;
        }
        step.kind = Kind::kOperation;
        step.operation = node->getOperation();
        if (const c10::FunctionSchema* schema = node->maybeSchema()) {
          const auto& arguments = schema->arguments();
          for (size_t i = 0; i < arguments.size() && i < step.inputs.size(); ++i) {
            const c10::AliasInfo* alias = arguments[i].alias_info();
            if (alias != nullptr && alias->isWrite()) step.written.push_back(i);
          }
        }
    }
    return step;
  }

  std::unordered_map<const jit::Value*, int> places_;
};

c10::IValue take(Registers& registers, const ScriptStep::Input& input) {
  return input.last ? std::move(registers[input.place]) : registers[input.place];
}

void run_block(const ScriptBlock& block, Registers& registers, jit::Stack& scratch);

template <class Function>
void for_tensors(const c10::IValue& value, const Function& function) {
  if (value.isTensor()) {
    if (value.toTensor().defined() && value.toTensor().has_storage()) function(value.toTensor());
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) for_tensors(element, function);
  }
}

void note_writes(const ScriptStep& step, Registers& registers) {
  for (const size_t i : step.written) {
    for_tensors(registers[step.inputs[i].place], [&](const at::Tensor& tensor) {
      const c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
      for (const c10::StorageImpl* argument : registers.arguments) {
        registers.wrote_arguments |= argument == storage;
      }
    });
  }
}

ExpressionNumber compute(const ScriptStep& step, const Registers& registers) {
  const c10::IValue& first = registers[step.inputs.front().place];
  const c10::IValue& last = registers[step.inputs.back().place];
  try {
    return step.arithmetic(first.toInt(), last.toInt());
  } catch (const c10::ValueError&) {
    throw AssertionFailed();
  }
}

void run_step(const ScriptStep& step, Registers& registers, jit::Stack& scratch) {
  switch (step.kind) {
    case Kind::kConstant:
      registers[step.outputs[0]] = step.constant;
      return;
    case Kind::kArithmetic:
      registers[step.outputs[0]] = compute(step, registers).as_integer();
      return;
    case Kind::kOperation: {
      note_writes(step, registers);
      for (const auto& input : step.inputs) scratch.push_back(take(registers, input));
      (*step.operation)(scratch);
      const size_t first = scratch.size() - step.outputs.size();
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        registers[step.outputs[i]] = std::move(scratch[first + i]);
      }
      scratch.resize(first);
      return;
    }
    case Kind::kIf: {
      const ScriptBlock& chosen = step.blocks[registers[step.inputs[0].place].toBool() ? 0 : 1];
      run_block(chosen, registers, scratch);
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        registers[step.outputs[i]] = registers[chosen.outputs[i]];
      }
      return;
    }
    case Kind::kLoop: {
      // Inputs: number of rounds, condition, carried values. Block: round, carried values; and out
      // of it condition, carried values.
      const ScriptBlock& body = step.blocks[0];
      const int64_t rounds = registers[step.inputs[0].place].toInt();
      bool goes_on = registers[step.inputs[1].place].toBool();
      std::vector<c10::IValue> carried;
      for (size_t i = 2; i < step.inputs.size(); ++i) {
        carried.push_back(registers[step.inputs[i].place]);
      }
      for (int64_t round = 0; round < rounds && goes_on; ++round) {
        registers[body.inputs[0]] = round;
        for (size_t i = 0; i < carried.size(); ++i) {
          registers[body.inputs[i + 1]] = std::move(carried[i]);
        }
        run_block(body, registers, scratch);
        goes_on = registers[body.outputs[0]].toBool();
        for (size_t i = 0; i < carried.size(); ++i) carried[i] = registers[body.outputs[i + 1]];
      }
      for (size_t i = 0; i < carried.size(); ++i) {
        registers[step.outputs[i]] = std::move(carried[i]);
      }
      return;
    }
    case Kind::kList: {
      c10::impl::GenericList list(step.element);
      for (const auto& input : step.inputs) list.push_back(take(registers, input));
      registers[step.outputs[0]] = std::move(list);
      return;
    }
    case Kind::kTuple: {
      std::vector<c10::IValue> elements;
      for (const auto& input : step.inputs) elements.push_back(take(registers, input));
      registers[step.outputs[0]] = c10::ivalue::Tuple::create(std::move(elements));
      return;
    }
    case Kind::kListUnpack: {
      const c10::IValue list = registers[step.inputs[0].place];
      const auto elements = list.toListRef();
      TORCH_CHECK(elements.size() == step.outputs.size(), "Expected ", step.outputs.size(),
                  " elements in a list but found ", elements.size());
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        registers[step.outputs[i]] = elements[i];
      }
      return;
    }
    case Kind::kRaise:
      throw AssertionFailed();
    case Kind::kTupleUnpack: {
      const c10::IValue tuple = registers[step.inputs[0].place];
      const auto& elements = tuple.toTupleRef().elements();
      for (size_t i = 0; i < step.outputs.size(); ++i) {
        registers[step.outputs[i]] = elements[i];
      }
      return;
    }
  }
}

void run_block(const ScriptBlock& block, Registers& registers, jit::Stack& scratch) {
  for (const ScriptStep& step : block.steps) run_step(step, registers, scratch);
}

}  // namespace

Script::Script(const std::string& source) {
  jit::CompilationUnit unit;
  const std::vector<jit::Function*> functions =
      unit.define(std::nullopt, source, jit::nativeResolver(), nullptr);
  TORCH_CHECK_VALUE(!functions.empty(), "a script defines no function");
  const std::shared_ptr<jit::Graph> graph = jit::toGraphFunction(*functions.back()).graph()->copy();
  jit::Inline(*graph);
  graph_ = graph;
  Translator translator;
  body_ = std::make_unique<ScriptBlock>(translator.translate(graph->block()));
  registers_ = translator.registers();
}

Script::~Script() = default;

Script::Outcome Script::run(jit::Stack& stack, size_t counted) const {
  TORCH_CHECK_VALUE(stack.size() == body_->inputs.size(), "a script wants ", body_->inputs.size(),
                    " arguments, not ", stack.size());
  Registers registers(registers_);
  for (size_t i = 0; i < stack.size(); ++i) {
    if (i < counted) {
      for_tensors(stack[i], [&](const at::Tensor& tensor) {
        registers.arguments.push_back(tensor.storage().unsafeGetStorageImpl());
      });
    }
    registers[body_->inputs[i]] = std::move(stack[i]);
  }
  stack.clear();
  jit::Stack scratch;
  try {
    run_block(*body_, registers, scratch);
  } catch (const AssertionFailed&) {
    return {false, registers.wrote_arguments};
  }
  for (const int output : body_->outputs) stack.push_back(registers[output]);
  return {true, registers.wrote_arguments};
}

}  // namespace outboard
