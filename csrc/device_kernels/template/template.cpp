#include "device_kernels/template/template.h"

// How a row becomes a kernel template's description. What calls do with it: template_call.cpp.

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdlib>

#include "device_kernels/rows/dtype_names.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/rows/numbers.h"

namespace outboard {

using at::ScalarType;
using Kind = ExpressionValue::Kind;

namespace {

// Text `i` of a list, "" where it is shorter.
const std::string& text_at(const Row& row, const char* property, size_t i) {
  static const auto* none = new std::string;
  const std::vector<std::string>& texts = row.texts(property);
  return i < texts.size() ? texts[i] : *none;
}

}  // namespace

int TemplateKernel::add_name(const std::string& name, ExpressionKinds kinds) {
  names_.emplace_back(name, kinds);
  return static_cast<int>(names_.size()) - 1;
}

int TemplateKernel::tensor_index(const std::string& name) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return static_cast<int>(i);
  }
  TORCH_CHECK_VALUE(false, "it names the tensor '", name, "', which the row does not list");
}

Expression TemplateKernel::parse(const std::string& text, ExpressionKinds kinds) const {
  const auto slot = [&](const std::string& name) -> Expression::Slot {
    for (size_t i = names_.size(); i-- > 0;) {
      if (names_[i].first == name) return {static_cast<int>(i), names_[i].second};
    }
    TORCH_CHECK_VALUE(false, "the expression '", text, "' uses '", name,
                      "', which is not known there");
  };
  return Expression(text, slot, kinds);
}

std::vector<TemplateKernel::Named> TemplateKernel::parse_named(
    const std::vector<std::string>& texts, ExpressionKinds kinds, bool with_slots) {
  std::vector<Named> result;
  for (const std::string& text : texts) {
    const size_t sign = text.find(" = ");
    TORCH_CHECK_VALUE(sign != std::string::npos, "it has '", text,
                      "' instead of 'name = expression'");
    Named named{text.substr(0, sign), parse(text.substr(sign + 3), kinds), -1};
    if (with_slots) named.slot = add_name(named.name, named.expression.kinds());
    result.push_back(std::move(named));
  }
  return result;
}

void TemplateKernel::set_dtype(Tensor& tensor, const std::string& text) {
  tensor.dtype_of = -1;
  if (text.empty()) {
    tensor.dtype_of = 0;
  } else if (text == "dtype") {
    overload_.index("dtype");
    tensor.from_argument = true;
  } else if (text == "value") {
    tensor.of_values = true;
  } else if (const auto dtype = dtype_named(text)) {
    tensor.dtype = *dtype;
  } else {
    tensor.dtype_of = tensor_index(text);
  }
}

TemplateKernel::TemplateKernel(const Row& row, const c10::FunctionSchema& schema)
    : EngineKernel(row, schema),
      source_(row.text("source")),
      dtypes_(static_cast<uint64_t>(row.integer("dtypes", -1))),
      vectors_(row.flag("vectors")),
      resizes_silently_(row.flag("resizes_silently")),
      number_arguments_(number_arguments(overload_)),
      generator_(overload_.find("generator")),
      fault_(row.text("reports"), overload_.name()) {
  for (size_t i = 0; i < overload_.argument_count(); ++i) {
    const c10::Argument& argument = overload_.argument(static_cast<int>(i));
    add_name(argument.name(), ExpressionKinds::of(argument));
  }
  add_name("group_lanes", Kind::kNumber);
  add_name("deterministic", Kind::kNumber);
  add_name("processors", Kind::kNumber);
  add_name("matrix_units", Kind::kNumber);
  for (std::string name : row.texts("operands")) {
    Tensor tensor;
    tensor.optional = name.back() == '?';
    if (tensor.optional) name.pop_back();
    if (const size_t sign = name.find('='); sign != std::string::npos) {
      const size_t bracket = name.find('[', sign);
      TORCH_CHECK_VALUE(bracket != std::string::npos, "it has '", name,
                        "' instead of 'name=list[place]'");
      tensor.element = std::strtoll(name.c_str() + bracket + 1, nullptr, 10);
      tensor.argument = overload_.index(name.substr(sign + 1, bracket - sign - 1));
      name.resize(sign);
      tensor.slot = add_name(name, Kind::kTensor);
    } else {
      tensor.argument = overload_.index(name);
      tensor.slot = tensor.argument;
    }
    tensor.name = name;
    tensors_.push_back(std::move(tensor));
  }
  operand_count_ = tensors_.size();
  for (size_t i = 0; i < overload_.argument_count(); ++i) {
    const auto place = static_cast<int>(i);
    const bool read = std::any_of(tensors_.begin(), tensors_.end(),
                                  [&](const Tensor& t) { return t.argument == place; });
    if (!read && !overload_.argument(place).is_out() &&
        overload_.argument(place).type()->isSubtypeOf(*c10::OptionalType::ofTensor())) {
      unread_.push_back(place);
    }
  }
  std::vector<std::string> operands;
  for (const Tensor& tensor : tensors_) operands.push_back(tensor.name);
  row.check_names("accepts", operands);
  for (const auto& [name, dtypes] : row.dictionary("accepts")) {
    tensors_[tensor_index(name)].accepts = dtype_set(dtypes);
  }
  if (const std::string& text = row.text("most_lanes"); !text.empty()) {
    most_lanes_ = parse(text, Kind::kNumber);
  }
  let_ = parse_named(row.texts("let"), ExpressionKinds::any(), /*with_slots=*/true);
  for (const std::string& text : row.texts("reads")) {
    const size_t sign = text.find(" = ");
    TORCH_CHECK_VALUE(sign != std::string::npos, "it has '", text,
                      "' instead of 'name = temporary'");
    reads_.push_back({-1, add_name(text.substr(0, sign), Kind::kNumber)});
  }
  const size_t launches = row.texts("kernels").size();
  read_after_ = static_cast<size_t>(row.integer("read_after"));
  TORCH_CHECK_VALUE(read_after_ <= launches, "there are ", launches, " launches");

  const auto& results = row.texts("results");
  TORCH_CHECK_VALUE(results.size() == overload_.result_count(), "it has ", results.size(),
                    " results, the overload ", overload_.result_count());
  const auto add_tensors = [&](const std::vector<std::string>& names, const char* sizes,
                               ExpressionKinds size_kinds, const char* dtypes, const char* like) {
    for (const char* property : {sizes, dtypes}) row.ask(property);
    for (size_t i = 0; i < names.size(); ++i) {
      Tensor tensor;
      tensor.name = names[i];
      if (const std::string& text = text_at(row, sizes, i); !text.empty()) {
        tensor.sizes = parse(text, size_kinds);
      }
      if (like != nullptr && !text_at(row, like, i).empty()) {
        tensor.like = tensor_index(text_at(row, like, i));
      }
      tensors_.push_back(tensor);
      set_dtype(tensors_.back(), text_at(row, dtypes, i));
      tensors_.back().slot = add_name(names[i], Kind::kTensor);
    }
  };
  row.ask("like");
  add_tensors(results, "sizes", Kind::kList, "result_dtypes", "like");
  add_tensors(row.texts("temporaries"), "temporary_sizes", Kind::kNumber, "temporary_dtypes",
              nullptr);
  for (const auto& [name, operand] : row.dictionary("memory_formats")) {
    tensors_[tensor_index(name)].memory_format = tensor_index(operand);
  }
  for (const auto& [name, text] : row.dictionary("strides")) {
    tensors_[tensor_index(name)].strides = parse(text, Kind::kList);
  }
  for (const auto& [name, text] : row.dictionary("wanted")) {
    tensors_[tensor_index(name)].wanted = parse(text, ExpressionKinds::any());
  }
  for (const auto& [name, text] : row.dictionary("initial")) {
    Tensor& tensor = tensors_[tensor_index(name)];
    if (const auto number = parse_real(text)) {
      tensor.initial = Tensor::kNumber;
      tensor.initial_number = *number;
    } else {
      tensor.initial = tensor_index(text);
    }
  }
  for (const std::string& name : row.texts("items_of")) tensors_[tensor_index(name)].items = true;
  for (const std::string& name : row.texts("strided")) tensors_[tensor_index(name)].strided = true;
  if (const std::string& name = row.text("compute"); !name.empty()) {
    const auto dtype = dtype_named(name);
    compute_ = dtype.value_or(ScalarType::Undefined);
    if (!dtype.has_value()) compute_of_ = static_cast<size_t>(tensor_index(name));
  }
  size_t read = 0;
  for (const std::string& text : row.texts("reads")) {
    reads_[read++].tensor = tensor_index(text.substr(text.find(" = ") + 3));
  }
  for (const std::string& text : row.texts("conditions")) {
    conditions_.push_back(parse(text, ExpressionKinds::any()));
  }
  for (const std::string& name : row.texts("scalars")) {
    scalars_.push_back(overload_.index(name));
    scalar_names_.push_back(name);
  }
  numbers_ = parse_named(row.texts("numbers"), Kind::kNumber, false);
  reals_ = parse_named(row.texts("reals"), Kind::kNumber, false);
  lists_ = parse_named(row.texts("lists"), Kind::kList, false);
  constants_ = parse_named(row.texts("constants"), Kind::kNumber, false);
  if (const std::string& text = row.text("random"); !text.empty()) {
    random_ = parse(text, Kind::kNumber);
  }
  for (const char* property : {"items", "when", "repeat", "groups"}) row.ask(property);
  const auto& kernels = row.texts("kernels");
  for (size_t i = 0; i < kernels.size(); ++i) {
    Launch launch{kernels[i], {}, {}, {}, text_at(row, "groups", i) == "1"};
    const std::string& items = text_at(row, "items", i);
    TORCH_CHECK_VALUE(!items.empty(), "it does not say how many work items '", kernels[i], "' has");
    launch.items = parse(items, Kind::kNumber);
    const auto optional = [&](const char* property, ExpressionKinds kinds) {
      const std::string& text = text_at(row, property, i);
      return text.empty() || text == "1" ? Expression() : parse(text, kinds);
    };
    launch.when = optional("when", ExpressionKinds::any());
    launch.repeat = optional("repeat", Kind::kNumber);
    launches_.push_back(std::move(launch));
  }
  meta_ = MetaCall::of(row, overload_);
}

OUTBOARD_ENGINE("template", TemplateKernel);

}  // namespace outboard
