#include "device_kernels/reduction/reduction_source.h"

#include "device_kernels/kernel_types.h"

namespace outboard {
namespace {

using at::ScalarType;

std::string define(const std::string& name, const std::string& text) {
  return "#undef " + name + "\n#define " + name + " " + text + "\n";
}

const char* lowest(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Int:
      return "INT_MIN";
    case ScalarType::Long:
      return "LONG_MIN";
    default:
      return "(-INFINITY)";
  }
}

const char* highest(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Int:
      return "INT_MAX";
    case ScalarType::Long:
      return "LONG_MAX";
    default:
      return "INFINITY";
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
  const int w = width();
  std::string parameters;  // of functions
  std::string arguments;
  for (const std::string& name : description.parameters) {
    parameters += ", const " + value_type(compute) + " " + name;
    arguments += ", " + name;
  }

  std::string all = type_functions();
  all += define("OB_INDEX", wide_index ? "ulong" : "uint");
  all += define("OB_WIDTH", std::to_string(w));
  all += define("OB_LOCAL", std::to_string(lanes_of_group));
  all += define("OB_COLUMNS", std::to_string(kReductionColumns));
  all += define("OB_DIMENSIONS", std::to_string(kReductionDimensions));
  all += define("OB_INPUT", storage_type(input));
  all += define("OB_PARAMETERS", parameters) + define("OB_ARGUMENTS", arguments);
  all += define("OB_LOWEST", lowest(compute)) + define("OB_HIGHEST", highest(compute));

  // State and functions for vectors, then for scalars: results are texts for these.
  for (const bool vector : {true, false}) {
    const int width = vector ? w : 1;
    const std::string name = vector ? "wide" : "one";
    const std::string number = std::to_string(width);
    const std::string masks = mask_type(compute, width);
    all += define("T", value_type(compute, width)) + define("M", masks) +
           define("C(x)", "((T)(x))") + define("I", width == 1 ? "int" : "int" + number);
    all += define("OB_INDEX_MASK(m)", width == 1 ? "(m)" : "convert_int" + number + "(m)");
    all += define("OB_VALUE_MASK(m)", width == 1 ? "(m)" : "convert_" + masks + "(m)");
    all += "typedef struct {\n";
    for (const std::string& field : description.fields) all += "  " + field + ";\n";
    all += "} state_" + name + ";\n";
    all += "typedef T value_" + name + ";\ntypedef I index_" + name + ";\n";
    all += "static inline void initial_" + name + "(state_" + name + " *s) {\n  " +
           description.initial + "\n}\n";
    all += "static inline void step_" + name + "(state_" + name +
           " *s, const T x, const I i OB_PARAMETERS) {\n  " + description.step + "\n}\n";
    all += "static inline void merge_" + name + "(state_" + name + " *s, const state_" + name +
           " *t) {\n  " + description.merge + "\n}\n";
    all += "static inline T load_" + name +
           "(__global const OB_INPUT *p, OB_INDEX at) {\n  const " +
           value_type(value_dtype(input), width) + " x = " + load_text(input, width, "p", "at") +
           ";\n  return " + convert_text(value_dtype(input), compute, width, "x") + ";\n}\n";
  }
  all +=
      "static inline state_one lane_of_wide(const state_wide *s, const uint k) {\n  state_one "
      "one;\n";
  for (const std::string& field : description.fields) {
    const std::string name = field.substr(2);
    const std::string type = field[0] == 'I' ? "int" : value_type(compute);
    all += "  one." + name + " = ((const " + type + " *)&s->" + name + ")[k];\n";
  }
  all += "  return one;\n}\n";
  std::string lanes = "(index_wide)(0";
  for (int k = 1; k < w; ++k) lanes += ", " + std::to_string(k);
  all += define("OB_LANES", lanes + ")");

  std::string pointers;
  std::string binds;
  std::string offsets = "layout.output[0]";
  std::string writes;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::string number = std::to_string(k);
    const std::string type = storage_type(outputs[k]);
    const ScalarType from = description.indices[k] ? ScalarType::Int : compute;
    pointers += ", OB_POINTER(" + type + ", out" + number + ")";
    binds += " OB_BIND(" + type + ", out" + number + ")";
    all += "static inline void write" + number + "(__global " + type +
           " *p, const OB_INDEX at, const state_one *s, const " + value_type(compute) +
           " n OB_PARAMETERS) {\n  const " + value_type(from) +
           " result = " + description.results[k] + ";\n  const " +
           value_type(value_dtype(outputs[k])) +
           " value = " + convert_text(from, value_dtype(outputs[k]), 1, "result") + ";\n  " +
           store_text(outputs[k], 1, "p", "at", "value") + "\n}\n";
    writes += " write" + number + "(out" + number + ", kept_offset(layout.output[" + number +
              "], k, &layout), &s, count_value OB_ARGUMENTS);";
  }
  all += define("OB_OUTPUTS", std::to_string(outputs.size()));
  all += define("OB_POINTERS", pointers) + define("OB_BINDS", binds) + define("OB_WRITE", writes);
  // Two reals for a complex dtype: n is real, and so are all results of dividing by it.
  all += define("OB_COUNT", "const " + value_type(compute) + " count_value = " +
                                convert_text(ScalarType::Long, compute, 1, "(long)n") + ";");
  return all + kernels;
}

}  // namespace outboard
