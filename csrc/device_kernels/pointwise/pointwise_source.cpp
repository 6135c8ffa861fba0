#include "device_kernels/pointwise/pointwise_source.h"

#include <algorithm>

#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/scalar_functions.h"

namespace outboard {
namespace {

using at::ScalarType;

std::string number(size_t i) { return std::to_string(i); }

class Writer {
 public:
  explicit Writer(const PointwiseSource& source) : source_(source) {
    size_t largest = c10::elementSize(source.compute);
    bool complex = at::isComplexType(source.compute);
    const auto see = [&](ScalarType dtype) {
      largest = std::max(largest, c10::elementSize(value_dtype(dtype)));
      complex = complex || at::isComplexType(dtype);
    };
    for (const auto& output : source.outputs) see(output.dtype);
    for (const auto& input : source.inputs) see(input.dtype);
    width_ = complex || source.scalar ? 1 : source.shape.width(static_cast<int>(largest));
  }

  std::string text() {
    std::string expressions;
    for (size_t i = 0; i < source_.outputs.size(); ++i) expressions += result_function(i);
    std::string all = type_functions();
    all += source_.wide_index ? "#define OB_INDEX ulong\n" : "#define OB_INDEX uint\n";
    all += scalar_functions_text(source_.compute, width_, expressions);
    all += expressions;
    for (size_t i = 0; i < source_.once.size(); ++i) all += once_function(i);
    for (size_t i = 0; i < source_.outputs.size(); ++i) all += write_function(i);
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      if (from_memory(source_.inputs[i])) all += read_function(i);
    }
    return all + contiguous_kernel() + strided_kernel();
  }

 private:
  // Whether elements are read where they are needed.
  static bool from_memory(const PointwiseSource::Input& input) {
    return !input.by_value && !input.uniform;
  }

  std::string once_function(size_t i) const {
    std::string parameters;
    for (const auto& input : source_.inputs) {
      if (input.uniform) parameters += (parameters.empty() ? "S " : ", S ") + input.name;
    }
    for (const auto& scalar : source_.scalars) {
      parameters += (parameters.empty() ? "S " : ", S ") + scalar;
    }
    return "static inline S ob_once" + number(i) + "(" + parameters + ") { return " +
           source_.once[i].second + "; }\n";
  }

  // One work item of a group calls these functions for all of it.
  std::string once_values() const {
    std::string arguments;
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      if (source_.inputs[i].uniform) arguments += (arguments.empty() ? "u" : ", u") + number(i);
    }
    for (size_t i = 0; i < source_.scalars.size(); ++i) {
      arguments += (arguments.empty() ? "scalar" : ", scalar") + number(i);
    }
    if (source_.once.empty()) return "";
    std::string text =
        "  __local S once[" + number(source_.once.size()) + "];\n  if (get_local_id(0) == 0) {\n";
    for (size_t i = 0; i < source_.once.size(); ++i) {
      text += "    once[" + number(i) + "] = ob_once" + number(i) + "(" + arguments + ");\n";
    }
    text += "  }\n  barrier(CLK_LOCAL_MEM_FENCE);\n";
    for (size_t i = 0; i < source_.once.size(); ++i) {
      text += "  const T c" + number(i) + " = (T)(once[" + number(i) + "]);\n";
    }
    return text;
  }

  std::string result_type(const PointwiseSource::Output& output) const {
    switch (output.result) {
      case PointwiseSource::Result::kMask:
        return "M";
      case PointwiseSource::Result::kReal:
        return "S";
      default:
        return "T";
    }
  }

  // The expression over the operands and scalars by their names.
  std::string result_function(size_t i) const {
    const auto& output = source_.outputs[i];
    std::string parameters;
    for (const auto& input : source_.inputs) {
      parameters +=
          (parameters.empty() ? "" : ", ") + std::string(input.mask ? "M " : "T ") + input.name;
    }
    for (const auto& scalar : source_.scalars) {
      parameters += (parameters.empty() ? "" : ", ") + std::string("T ") + scalar;
    }
    for (const auto& [name, expression] : source_.once) {
      parameters += (parameters.empty() ? "" : ", ") + std::string("T ") + name;
    }
    return "static inline " + result_type(output) + " ob_result" + number(i) + "(" + parameters +
           ") { return " + output.expression + "; }\n";
  }

  std::string write_function(size_t i) const {
    const auto& output = source_.outputs[i];
    const ScalarType stored = value_dtype(output.dtype);
    std::string converted;
    switch (output.result) {
      case PointwiseSource::Result::kMask:
        converted = mask_to_value_text(source_.compute, stored, width_, "result");
        break;
      case PointwiseSource::Result::kReal:
        converted = convert_text(c10::toRealValueType(source_.compute), stored, width_, "result");
        break;
      default:
        // Arithmetic on bool leaves any number.
        converted = source_.compute == ScalarType::Bool && stored == ScalarType::Bool
                        ? convert_text(ScalarType::Byte, stored, width_, "result")
                        : convert_text(source_.compute, stored, width_, "result");
    }
    std::string body = "  const " + value_type(stored, width_) + " value = " + converted + ";\n";
    if (width_ == 1) {
      body += "  " + store_text(output.dtype, 1, "p", "at", "value") + "\n";
    } else {
      const std::string w = number(width_);
      body += "  if (stride == 1 && count == " + w + ") {\n    " +
              store_text(output.dtype, width_, "p", "at", "value") + "\n  } else {\n    " +
              value_type(stored) + " each[" + w + "];\n    vstore" + w +
              "(value, 0, each);\n    for (uint k = 0; k < count; ++k) " +
              store_text(output.dtype, 1, "p", "(at + k * stride)", "each[k]") + "\n  }\n";
    }
    return "static inline void ob_write" + number(i) + "(__global " + storage_type(output.dtype) +
           " *p, OB_INDEX at, OB_INDEX stride, uint count, " + result_type(output) +
           " result) {\n" + body + "}\n";
  }

  // From the value type of the operand to what the expression takes.
  std::string operand_text(const PointwiseSource::Input& input, int width,
                           const std::string& value) const {
    const ScalarType loaded = value_dtype(input.dtype);
    return input.mask ? value_to_mask_text(loaded, source_.compute, width, value)
                      : convert_text(loaded, source_.compute, width, value);
  }

  std::string read_function(size_t i) const {
    const auto& input = source_.inputs[i];
    const ScalarType loaded = value_dtype(input.dtype);
    std::string body;
    if (width_ == 1) {
      body = "  return " + operand_text(input, 1, load_text(input.dtype, 1, "p", "at")) + ";\n";
    } else {
      const std::string w = number(width_);
      const std::string vector = value_type(loaded, width_);
      const std::string one = load_text(input.dtype, 1, "p", "at");
      const std::string each = load_text(input.dtype, 1, "p", "(at + k * stride)");
      body = "  " + vector + " value;\n  if (stride == 1 && count == " + w +
             ") {\n    value = " + load_text(input.dtype, width_, "p", "at") +
             ";\n  } else if (stride == 0) {\n" + "    value = (" + vector + ")(" + one +
             ");\n  } else {\n    " + value_type(loaded) + " each[" + w + "];\n    vstore" + w +
             "((" + vector + ")(0), 0, each);\n" +
             "    for (uint k = 0; k < count; ++k) each[k] = " + each + ";\n    value = vload" + w +
             "(0, each);\n  }\n  return " + operand_text(input, width_, "value") + ";\n";
    }
    return std::string("static inline ") + (input.mask ? "M" : "T") + " ob_read" + number(i) +
           "(__global " + storage_type(input.dtype) +
           " *p, OB_INDEX at, OB_INDEX stride, uint count) {\n" + body + "}\n";
  }

  std::string parameters() const {
    std::string text;
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      text += "OB_POINTER(" + std::string(storage_type(source_.outputs[i].dtype)) + ", out" +
              number(i) + "), ";
    }
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      const auto& input = source_.inputs[i];
      text += input.by_value ? value_type(input.dtype) + " in" + number(i) + ", "
                             : "OB_POINTER(" + std::string(storage_type(input.dtype)) + ", in" +
                                   number(i) + "), ";
    }
    for (size_t i = 0; i < source_.scalars.size(); ++i) {
      text += value_type(source_.compute) + " scalar" + number(i) + ", ";
    }
    return text;
  }

  // What comes first in both kernels: pointers, values that do not change, and the chunk [i, end).
  std::string opening() const {
    std::string text;
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      text += "  OB_BIND(" + std::string(storage_type(source_.outputs[i].dtype)) + ", out" +
              number(i) + ")\n";
    }
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      const auto& input = source_.inputs[i];
      if (input.by_value) {
        const std::string value = "in" + number(i);
        text += input.mask ? "  const M x" + number(i) + " = (M)(" + value +
                                 (width_ > 1 ? " ? -1 : 0" : " != 0") + ");\n"
                           : "  const T x" + number(i) + " = (T)(" + value + ");\n";
      } else {
        text += "  OB_BIND(" + std::string(storage_type(input.dtype)) + ", in" + number(i) + ")\n";
      }
    }
    for (size_t k = 0; k < source_.inputs.size(); ++k) {
      const auto& input = source_.inputs[k];
      if (!input.uniform) continue;
      const std::string n = number(k);
      text += "  const S u" + n + " = " +
              (input.by_value ? "in" + n
                              : operand_text(input, 1, load_text(input.dtype, 1, "in" + n, "0"))) +
              ";\n";
      if (!input.by_value) text += "  const T x" + n + " = (T)(u" + n + ");\n";
    }
    for (size_t i = 0; i < source_.scalars.size(); ++i) {
      text += "  const T s" + number(i) + " = (T)(scalar" + number(i) + ");\n";
    }
    text += once_values();
    const std::string chunk = number(source_.shape.chunk);
    text += "  OB_INDEX i = (OB_INDEX)get_global_id(0) * " + chunk +
            ";\n  if (i >= total) return;\n  const OB_INDEX end = total - i < " + chunk +
            " ? total : i + " + chunk + ";\n";
    return text;
  }

  // Loads, computes and stores `count` elements. `where(operand)` gives "at, stride" of a pointer.
  template <class Where>
  std::string body(const std::string& count, Where&& where) const {
    std::string text;
    std::string arguments;
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      const auto& input = source_.inputs[i];
      if (from_memory(input)) {
        text += std::string("const ") + (input.mask ? "M" : "T") + " x" + number(i) + " = ob_read" +
                number(i) + "(in" + number(i) + ", " + where(source_.outputs.size() + i) + ", " +
                count + "); ";
      }
      arguments += (arguments.empty() ? "x" : ", x") + number(i);
    }
    for (size_t i = 0; i < source_.scalars.size(); ++i) {
      arguments += (arguments.empty() ? "s" : ", s") + number(i);
    }
    for (size_t i = 0; i < source_.once.size(); ++i) {
      arguments += (arguments.empty() ? "c" : ", c") + number(i);
    }
    // All results before the first store: an output may be an input.
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      text += "const " + result_type(source_.outputs[i]) + " r" + number(i) + " = ob_result" +
              number(i) + "(" + arguments + "); ";
    }
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      text += "ob_write" + number(i) + "(out" + number(i) + ", " + where(i) + ", " + count + ", r" +
              number(i) + "); ";
    }
    return text;
  }

  std::string contiguous_kernel() const {
    const auto where = [](size_t) { return "i, 1"; };
    const std::string w = number(width_);
    std::string text = "__kernel void contiguous(" + parameters() + "OB_INDEX total) {\n" +
                       opening() + "  for (; end - i >= " + w + "; i += " + w + ") { " +
                       body(w, where) + "}\n";
    if (width_ > 1) text += "  if (i < end) { const uint n = end - i; " + body("n", where) + "}\n";
    return text + "}\n";
  }

  std::string strided_kernel() const {
    size_t pointers = source_.outputs.size();
    std::vector<size_t> place(source_.outputs.size() + source_.inputs.size());
    for (size_t i = 0; i < source_.outputs.size(); ++i) place[i] = i;
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      if (!source_.inputs[i].by_value) place[source_.outputs.size() + i] = pointers++;
    }
    const std::string dimensions = number(kPointwiseDimensions);
    std::string text = "typedef struct { OB_INDEX size[" + dimensions + "]; OB_INDEX stride[" +
                       dimensions + "][" + number(pointers) + "]; } ob_layout;\n" +
                       "__kernel void strided(" + parameters() +
                       "ob_layout layout, uint dimensions, OB_INDEX total) {\n" + opening() +
                       "  while (i < end) {\n    OB_INDEX rest = i / layout.size[0];\n" +
                       "    const OB_INDEX first = i - rest * layout.size[0];\n";
    for (size_t k = 0; k < pointers; ++k) {
      text += "    OB_INDEX o" + number(k) + " = first * layout.stride[0][" + number(k) + "];\n";
    }
    text +=
        "    for (uint d = 1; d < dimensions; ++d) {\n"
        "      const OB_INDEX quotient = rest / layout.size[d];\n"
        "      const OB_INDEX index = rest - quotient * layout.size[d];\n"
        "      rest = quotient;\n";
    for (size_t k = 0; k < pointers; ++k) {
      text += "      o" + number(k) + " += index * layout.stride[d][" + number(k) + "];\n";
    }
    const auto where = [&](size_t operand) {
      const std::string k = number(place[operand]);
      return "o" + k + " + j * layout.stride[0][" + k + "], layout.stride[0][" + k + "]";
    };
    const std::string w = number(width_);
    return text +
           "    }\n    const OB_INDEX run = min(end - i, layout.size[0] - first);\n"
           "    for (OB_INDEX j = 0; j < run; j += " +
           w + ") {\n      const uint n = min((OB_INDEX)" + w + ", run - j);\n      " +
           body("n", where) + "\n    }\n    i += run;\n  }\n}\n";
  }

  const PointwiseSource& source_;
  int width_ = 1;  // vectors of complex values do not exist
};

}  // namespace

std::string PointwiseSource::text() const { return Writer(*this).text(); }

}  // namespace outboard
