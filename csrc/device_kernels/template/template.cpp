#include "device_kernels/template/template.h"

#include <algorithm>

#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_types.h"
#include "dispatch/placement.h"
#include "transfer/copy.h"

namespace outboard {

using at::ScalarType;

int TemplateKernel::tensor_index(const std::string& name) const {
  const auto found = std::ranges::find(tensors_, name, &Tensor::name);
  TORCH_CHECK_VALUE(found != tensors_.end(), "it names the tensor '", name,
                    "', which the definition does not list");
  return static_cast<int>(found - tensors_.begin());
}

int TemplateKernel::node_of_name(const std::string& name) const {
  const ExpressionGraph& graph = conditions_.graph();
  for (int i = 0; i < graph.size(); ++i) {
    const std::string* known = graph.name(i);
    if (known != nullptr && *known == name) return i;
  }
  return -1;
}

std::vector<TemplateKernel::Named> TemplateKernel::named_nodes(const Definition& definition,
                                                               const char* field) {
  std::vector<Named> result;
  for (const auto& [name, node] : definition.named_integers(field)) {
    result.push_back({name, definition.graph->checked(node)});
  }
  return result;
}

TemplateKernel::TemplateKernel(const Definition& definition, const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema, /*evaluates_conditions=*/true),
      location_(definition.string("location")),
      source_(definition.string("source")),
      dtypes_(definition.dtypes()),
      vectors_(definition.flag("vectors")),
      resizes_silently_(definition.flag("resizes_silently")),
      number_arguments_(number_arguments(overload_)),
      compute_(definition.integer("compute") < 0
                   ? ScalarType::Undefined
                   : static_cast<ScalarType>(definition.integer("compute"))),
      lanes_(definition.node("lanes")),
      random_(definition.node("random")),
      group_lanes_(node_of_name("group_lanes")),
      deterministic_(node_of_name("deterministic")),
      processors_(node_of_name("processors")),
      matrix_units_(node_of_name("matrix_units")),
      value_dtype_(node_of_name("value_dtype")),
      generator_(overload_.find("generator")),
      assert_(definition, overload_.name()) {
  read_operands(definition);
  read_made_tensors(definition);
  for (const std::string& name : definition.strings("moves"))
    tensors_[tensor_index(name)].items = true;
  for (const std::string& name : definition.strings("strided"))
    tensors_[tensor_index(name)].strided = true;
  if (const std::string& name = definition.string("compute_of"); !name.empty()) {
    compute_of_ = static_cast<size_t>(tensor_index(name));
  }
  for (const std::string& name : definition.strings("scalars")) {
    scalars_.push_back(overload_.index(name));
    scalar_names_.push_back(name);
  }
  numbers_ = named_nodes(definition, "numbers");
  reals_ = named_nodes(definition, "reals");
  lists_ = named_nodes(definition, "lists");
  constants_ = named_nodes(definition, "constants");
  read_launches(definition);
  meta_ = MetaCall::of(definition, overload_);
}

void TemplateKernel::read_operands(const Definition& definition) {
  const auto& optional = definition.strings("optional");
  std::vector<std::string> operands;
  for (const auto& [name, node] : definition.named_integers("operands")) {
    operands.push_back(name);
    Tensor tensor;
    tensor.name = name;
    tensor.argument = overload_.find(name);
    tensor.value = definition.graph->checked(node);
    tensor.optional = std::find(optional.begin(), optional.end(), name) != optional.end();
    tensors_.push_back(std::move(tensor));
  }
  operand_count_ = tensors_.size();
  for (int i = 0; i < static_cast<int>(overload_.argument_count()); ++i) {
    const bool read = std::ranges::find(tensors_, i, &Tensor::argument) != tensors_.end();
    if (!read && !overload_.argument(i).is_out() &&
        overload_.argument(i).type()->isSubtypeOf(*c10::OptionalType::ofTensor())) {
      unread_.push_back(i);
    }
  }
  definition.check_names("accepts", operands);
  for (const auto& [name, dtypes] : definition.named_integers("accepts")) {
    tensors_[tensor_index(name)].accepts = static_cast<uint64_t>(dtypes);
  }
}

void TemplateKernel::read_made_tensors(const Definition& definition) {
  const auto& results = definition.strings("results");
  TORCH_CHECK_VALUE(results.size() == overload_.result_count(), "it has ", results.size(),
                    " results, and the overload has ", overload_.result_count());
  for (const char* field : {"results", "temporaries"}) {
    for (const std::string& name : definition.strings(field)) {
      Tensor tensor;
      tensor.name = name;
      tensor.name_node = node_of_name(c10::str(field, ".", name));
      tensors_.push_back(std::move(tensor));
    }
  }
  const auto set_nodes = [&](const char* field, int Tensor::* member) {
    for (const auto& [name, node] : definition.named_integers(field)) {
      tensors_[tensor_index(name)].*member = definition.graph->checked(node);
    }
  };
  set_nodes("made_dtypes", &Tensor::dtype);
  set_nodes("sizes", &Tensor::sizes);
  set_nodes("strides", &Tensor::strides);
  set_nodes("wanted", &Tensor::wanted);
  set_nodes("initial", &Tensor::initial);
  const auto set_operands = [&](const char* field, int Tensor::* member) {
    for (const auto& [name, operand] : definition.get<Definition::Dictionary>(field)) {
      tensors_[tensor_index(name)].*member = tensor_index(operand);
    }
  };
  set_operands("like", &Tensor::like);
  set_operands("memory_formats", &Tensor::memory_format);
  set_operands("starts_as", &Tensor::starts_as);
  for (const auto& [name, tensor] : definition.get<Definition::Dictionary>("reads")) {
    reads_.push_back({tensor_index(tensor), node_of_name(name)});
  }
}

void TemplateKernel::read_launches(const Definition& definition) {
  const auto& kernels = definition.strings("kernels");
  const std::vector<int> items = definition.nodes("items");
  const std::vector<int> when = definition.nodes("when");
  const std::vector<int> repeat = definition.nodes("repeat");
  const Definition::Integers& groups = definition.get<Definition::Integers>("groups");
  for (size_t i = 0; i < kernels.size(); ++i) {
    launches_.push_back({kernels[i], items.at(i), when.at(i), repeat.at(i), groups.at(i) != 0});
  }
  read_after_ = static_cast<size_t>(definition.integer("read_after"));
}

bool TemplateKernel::reserve_random(Call& call, const torch::jit::Stack& stack) const {
  if (random_ < 0) return true;
  std::optional<at::Generator> generator;
  if (generator_ >= 0) generator = overload_.read(stack, generator_).toOptional<at::Generator>();
  int64_t draws = -1;
  if (!evaluates([&] { return (draws = call.values.integer(random_)) >= 0; })) return false;
  call.philox = reserve_philox(generator, call.device, static_cast<uint64_t>(draws));
  return true;
}

void TemplateKernel::read_values(Call& call) const {
  for (const Read& read : reads_) {
    const at::Scalar element = call.tensors[read.tensor].narrow(0, 0, 1).item();
    const ExpressionNumber number = element.isIntegral(/*includeBool=*/true)
                                        ? ExpressionNumber(element.to<int64_t>())
                                        : ExpressionNumber(element.to<double>());
    if (read.node >= 0) call.values.set(read.node, number);
  }
}

bool TemplateKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  Call call(conditions_.graph(), device);
  call.tensors.reserve(tensors_.size());
  if (!prepare(call, *stack)) return false;
  alert();
  call.tensors.resize(tensors_.size());
  const PlacementScope device_placement(PlacementSetting::kDevice);
  const bool sized_by_reads = !reads_.empty();
  if (!sized_by_reads && !make_results(call, *stack)) return false;
  make_operands_dense(call);
  if (!make_temporaries(call) || !plan(call, 0, sized_by_reads ? read_after_ : launches_.size()) ||
      !reserve_random(call, *stack)) {
    return false;
  }
  enqueue(call);
  if (sized_by_reads) {
    read_values(call);
    if (!make_results(call, *stack) || !plan(call, read_after_, launches_.size())) return false;
    enqueue(call);
  }
  if (assert_.reports()) expect_assert(current_stream_state(device), assert_.on(device));
  for (size_t k = 0; k < call.results.size(); ++k) {
    const at::Tensor& computed = call.tensors[operand_count_ + k];
    if (call.results[k].defined() && !call.results[k].is_same(computed)) {
      copy_into(call.results[k], computed);
    }
  }
  overload_.finish(stack, call.results);
  return true;
}

C10_REGISTER_CLASS(DefinitionKinds, template, TemplateKernel)

}  // namespace outboard
