#include "device_kernels/template/template.h"

// How a row becomes a kernel template's description. What calls do with it: template_call.cpp.

#include <c10/core/ScalarType.h>

#include <cstdlib>

#include "device_kernels/rows/dtype_names.h"
#include "device_kernels/kernel_types.h"

namespace outboard {

using at::ScalarType;

int TemplateKernel::slot(const std::string& name) const {
  for (size_t i = names_.size(); i-- > 0;) {
    if (names_[i] == name) return static_cast<int>(i);
  }
  TORCH_CHECK_VALUE(false, "an expression in a row of ", overload_.name(), " uses '", name,
                    "', which is not known there");
}

int TemplateKernel::tensor_index(const std::string& name) const {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].name == name) return static_cast<int>(i);
  }
  TORCH_CHECK_VALUE(false, "a row of ", overload_.name(), " mentions the tensor '", name,
                    "', which it does not list");
}

Expression TemplateKernel::parse(const std::string& text) const {
  return Expression(text, [this](const std::string& name) { return slot(name); });
}

std::vector<TemplateKernel::Named> TemplateKernel::parse_named(
    const std::vector<std::string>& texts, bool with_slots) {
  std::vector<Named> result;
  for (const std::string& text : texts) {
    const size_t sign = text.find(" = ");
    TORCH_CHECK_VALUE(sign != std::string::npos, "a row of ", overload_.name(), " has '", text,
                      "' instead of 'name = expression'");
    Named named{text.substr(0, sign), parse(text.substr(sign + 3)), -1};
    if (with_slots) {
      named.slot = static_cast<int>(names_.size());
      names_.push_back(named.name);
    }
    result.push_back(std::move(named));
  }
  return result;
}

void TemplateKernel::set_dtype(Tensor& tensor, const std::string& text) {
  tensor.dtype_of = -1;
  if (text.empty()) {
    tensor.dtype_of = 0;
  } else if (text == "dtype") {
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
      requirements_(row, overload_),
      dtypes_(static_cast<uint64_t>(row.integer("dtypes", -1))),
      vectors_(row.flag("vectors")),
      resizes_silently_(row.flag("resizes_silently")),
      reports_(row.text("reports")),
      generator_(overload_.find("generator")) {
  TORCH_CHECK_VALUE(reports_.empty() || reports_.rfind("IndexError", 0) == 0 ||
                        reports_.rfind("RuntimeError", 0) == 0,
                    "a row reports '", reports_,
                    "'; it can report IndexError or RuntimeError, and ': words'");
  for (size_t i = 0; i < overload_.argument_count(); ++i) {
    names_.push_back(overload_.argument(static_cast<int>(i)).name());
  }
  names_.emplace_back("group_lanes");
  names_.emplace_back("deterministic");
  const auto& accepts = row.dictionary("accepts");
  for (std::string name : row.texts("operands")) {
    Tensor tensor;
    tensor.optional = name.back() == '?';
    if (tensor.optional) name.pop_back();
    if (const size_t sign = name.find('='); sign != std::string::npos) {
      const size_t bracket = name.find('[', sign);
      TORCH_CHECK_VALUE(bracket != std::string::npos, "a row of ", overload_.name(), " has '", name,
                        "' instead of 'name=list[place]'");
      tensor.element = std::strtoll(name.c_str() + bracket + 1, nullptr, 10);
      tensor.argument = overload_.index(name.substr(sign + 1, bracket - sign - 1));
      name.resize(sign);
      tensor.slot = static_cast<int>(names_.size());
      names_.push_back(name);
    } else {
      tensor.argument = overload_.index(name);
      tensor.slot = tensor.argument;
    }
    tensor.name = name;
    const auto found = accepts.find(name);
    if (found != accepts.end()) tensor.accepts = dtype_set(found->second);
    tensors_.push_back(std::move(tensor));
  }
  operand_count_ = tensors_.size();
  let_ = parse_named(row.texts("let"), /*with_slots=*/true);
  for (const std::string& text : row.texts("reads")) {
    const size_t sign = text.find(" = ");
    TORCH_CHECK_VALUE(sign != std::string::npos, "a row reads '", text, "'");
    reads_.push_back({-1, static_cast<int>(names_.size())});
    names_.push_back(text.substr(0, sign));
  }
  read_after_ = static_cast<size_t>(row.integer("read_after"));

  const auto& results = row.texts("results");
  TORCH_CHECK_VALUE(results.size() == overload_.result_count(), "the row of ", overload_.name(),
                    " has ", results.size(), " results, the overload ", overload_.result_count());
  const auto add_tensors =
      [&](const std::vector<std::string>& names, const std::vector<std::string>& sizes,
          const std::vector<std::string>& dtypes, const std::vector<std::string>& like) {
        for (size_t i = 0; i < names.size(); ++i) {
          Tensor tensor;
          tensor.name = names[i];
          if (i < sizes.size()) tensor.sizes = parse(sizes[i]);
          if (i < like.size() && !like[i].empty()) tensor.like = tensor_index(like[i]);
          tensors_.push_back(tensor);
          set_dtype(tensors_.back(), i < dtypes.size() ? dtypes[i] : "");
          tensors_.back().slot = static_cast<int>(names_.size());
          names_.push_back(names[i]);
        }
      };
  add_tensors(results, row.texts("sizes"), row.texts("result_dtypes"), row.texts("like"));
  add_tensors(row.texts("temporaries"), row.texts("temporary_sizes"), row.texts("temporary_dtypes"),
              {});
  for (const auto& [name, text] : row.dictionary("strides")) {
    tensors_[tensor_index(name)].strides = parse(text);
  }
  for (const auto& [name, text] : row.dictionary("wanted")) {
    tensors_[tensor_index(name)].wanted = parse(text);
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
  for (const std::string& text : row.texts("conditions")) conditions_.push_back(parse(text));
  for (const std::string& name : row.texts("scalars")) {
    scalars_.push_back(overload_.index(name));
    scalar_names_.push_back(name);
  }
  numbers_ = parse_named(row.texts("numbers"), false);
  reals_ = parse_named(row.texts("reals"), false);
  lists_ = parse_named(row.texts("lists"), false);
  constants_ = parse_named(row.texts("constants"), false);
  if (const std::string& text = row.text("random"); !text.empty()) random_ = parse(text);
  const auto& kernels = row.texts("kernels");
  const auto& items = row.texts("items");
  const auto& when = row.texts("when");
  const auto& repeat = row.texts("repeat");
  const auto& groups = row.texts("groups");
  for (size_t i = 0; i < kernels.size(); ++i) {
    TORCH_CHECK_VALUE(i < items.size(), "the row of ", overload_.name(),
                      " does not say how many work items '", kernels[i], "' has");
    Launch launch{kernels[i], parse(items[i]), {}, {}, i < groups.size() && groups[i] == "1"};
    if (i < when.size() && when[i] != "1") launch.when = parse(when[i]);
    if (i < repeat.size() && repeat[i] != "1") launch.repeat = parse(repeat[i]);
    launches_.push_back(std::move(launch));
  }
  if (const std::string& name = row.text("meta"); !name.empty()) meta_.emplace(name, overload_);
}

OUTBOARD_ENGINE("template", TemplateKernel);

}  // namespace outboard
