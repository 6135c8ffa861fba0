// What the marks in torch_outboard/kernels/reductions/reduction.cl stand for.
#include "device_kernels/reduction/reduction_source.h"

#include "device_kernels/kernel_types.h"
#include "device_kernels/text_template.h"

namespace outboard {
namespace {

using at::ScalarType;

struct Limits {
  const char* lowest;
  const char* highest;
};

Limits limits_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Int:
      return {"INT_MIN", "INT_MAX"};
    case ScalarType::Long:
      return {"LONG_MIN", "LONG_MAX"};
    default:
      return {"(-INFINITY)", "INFINITY"};
  }
}

}  // namespace

int ReductionSource::width() const {
  if (at::isComplexType(compute) || at::isComplexType(input)) return 1;
  // Indices are int, and a vector of them is as wide as one of values.
  return shape.width(static_cast<int>(
      std::max({c10::elementSize(compute), c10::elementSize(value_dtype(input)), size_t{4}})));
}

std::string ReductionSource::text() const {
  TextValues marks;
  std::string parameters;  // of functions
  std::string arguments;
  for (const std::string& name : description.parameters) {
    parameters += ", const " + value_type(compute) + " " + name;
    arguments += ", " + name;
  }

  for (const std::string& field : description.fields) {  // "T name" or "I name"
    marks.lists["fields"].push_back({{{"field", field},
                                      {"name", field.substr(2)},
                                      {"type", field[0] == 'I' ? "int" : value_type(compute)}},
                                     {}});
  }
  // State and functions for vectors, then for scalars: results are texts for these.
  for (const bool vector : {true, false}) {
    const int lanes = vector ? width() : 1;
    const std::string number = std::to_string(lanes);
    const std::string masks = mask_type(compute, lanes);
    marks.lists["states"].push_back(
        {{{"lanes", vector ? "wide" : "one"},
          {"value", value_type(compute, lanes)},
          {"mask", masks},
          {"index_type", lanes == 1 ? "int" : "int" + number},
          {"to_index_mask", lanes == 1 ? "" : "convert_int" + number},
          {"to_value_mask", lanes == 1 ? "" : "convert_" + masks},
          {"loaded", value_type(value_dtype(input), lanes)},
          {"load", load_text(input, lanes, "p", "at")},
          {"converted", convert_text(value_dtype(input), compute, lanes, "x")}},
         {}});
  }
  for (size_t k = 0; k < outputs.size(); ++k) {
    const ScalarType stored = value_dtype(outputs[k]);
    const ScalarType from = description.indices[k] ? ScalarType::Int : compute;
    marks.lists["outputs"].push_back({{{"k", std::to_string(k)},
                                       {"storage", storage_type(outputs[k])},
                                       {"type", value_type(from)},
                                       {"result", description.results[k]},
                                       {"value", value_type(stored)},
                                       {"converted", convert_text(from, stored, 1, "result")},
                                       {"store", store_text(outputs[k], 1, "p", "at", "value")}},
                                      {}});
  }
  std::string places = "0";  // of the elements of a vector
  for (int k = 1; k < width(); ++k) places += ", " + std::to_string(k);
  marks.texts = {
      {"index", wide_index ? "ulong" : "uint"},
      {"width", std::to_string(width())},
      {"local", std::to_string(lanes_of_group)},
      {"columns", std::to_string(kReductionColumns)},
      {"dimensions", std::to_string(kReductionDimensions)},
      {"input", storage_type(input)},
      {"parameters", parameters},
      {"arguments", arguments},
      {"lowest", limits_of(compute).lowest},
      {"highest", limits_of(compute).highest},
      {"compute", value_type(compute)},
      {"initial", description.initial},
      {"step", description.step},
      {"merge", description.merge},
      {"places", places},
      {"output_count", std::to_string(outputs.size())},
      // Two reals for a complex dtype: n is real, and so are all results of dividing by it.
      {"count", convert_text(ScalarType::Long, compute, 1, "(long)n")},
  };
  return with_type_functions(render(kernels, marks));
}

}  // namespace outboard
