// What the marks in torch_outboard/kernels/pointwise/pointwise.cl stand for.
#include "device_kernels/pointwise/pointwise_source.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/call_table.h"
#include "device_kernels/pointwise/scalar_functions.h"
#include "device_kernels/text_template.h"

namespace outboard {
namespace {

using at::ScalarType;

std::string& program_text() {
  static std::string* text = new std::string;
  return *text;
}

// Elements of a vector; 1, for scalars, where values are complex: vectors of those do not exist.
int vector_width(const PointwiseSource& source) {
  size_t largest = c10::elementSize(source.compute);
  bool complex = at::isComplexType(source.compute);
  const auto see = [&](ScalarType dtype) {
    largest = std::max(largest, c10::elementSize(value_dtype(dtype)));
    complex = complex || at::isComplexType(dtype);
  };
  for (const auto& output : source.outputs) see(output.dtype);
  for (const auto& input : source.inputs) see(input.dtype);
  return complex || source.scalar ? 1 : source.shape.width(static_cast<int>(largest));
}

class Marks {
 public:
  explicit Marks(const PointwiseSource& source) : source_(source), width_(vector_width(source)) {
    add_operands();
    add_kernels();
    std::string expressions;
    for (const auto& output : source.outputs) expressions += output.expression + "\n";
    expressions += source.condition;
    marks_.set_flag("vectors", width_ > 1);
    marks_.set_flag("adjacent", width_ > 1 && source.shape.chunk == 0);
    marks_.texts.insert({
        {"index", source.wide_index ? "ulong" : "uint"},
        {"functions", scalar_functions_text(source.compute, width_, expressions)},
        {"compute", value_type(source.compute)},
        {"width", std::to_string(width_)},
        {"chunk", std::to_string(source.elements())},
        {"dimensions", std::to_string(kPointwiseDimensions)},
        {"tile", std::to_string(kCrossedTile)},
    });
  }

  const TextValues& values() const noexcept { return marks_; }

 private:
  TextValues output_marks(size_t i) const {
    const auto& output = source_.outputs[i];
    const ScalarType stored = value_dtype(output.dtype);
    const char* type = "T";
    ScalarType from = source_.compute;
    std::string converted;
    switch (output.result) {
      case PointwiseSource::Result::kMask:
        type = "M";
        converted = mask_to_value_text(from, stored, width_, "result");
        break;
      case PointwiseSource::Result::kReal:
        type = "S";
        converted = convert_text(c10::toRealValueType(from), stored, width_, "result");
        break;
      default:
        // Arithmetic on bool leaves any number.
        if (from == ScalarType::Bool && stored == ScalarType::Bool) from = ScalarType::Byte;
        converted = convert_text(from, stored, width_, "result");
    }
    return {{{"i", std::to_string(i)},
             {"place", std::to_string(i)},
             {"storage", storage_type(output.dtype)},
             {"result", type},
             {"expression", output.expression},
             {"converted", converted},
             {"value", value_type(stored, width_)},
             {"element", value_type(stored)},
             {"store", store_text(output.dtype, width_, "p", "at", "value")},
             {"aligned_store", store_text(output.dtype, width_, "p", "at", "value", true)},
             {"vector_bytes", vector_bytes(output.dtype)},
             {"store_each", store_text(output.dtype, 1, "p", "(at + k * stride)", "each[k]")}},
            {}};
  }

  std::string vector_bytes(ScalarType dtype) const {
    return std::to_string(c10::elementSize(dtype) * static_cast<size_t>(width_));
  }

  // From the value type of the operand to what the expression takes.
  std::string operand_text(const PointwiseSource::Input& input, int width,
                           const std::string& value) const {
    const ScalarType loaded = value_dtype(input.dtype);
    return input.mask ? value_to_mask_text(loaded, source_.compute, width, value)
                      : convert_text(loaded, source_.compute, width, value);
  }

  TextValues input_marks(size_t i, size_t place) const {
    const auto& input = source_.inputs[i];
    const ScalarType loaded = value_dtype(input.dtype);
    const std::string name = "in" + std::to_string(i);
    const std::string load_one = load_text(input.dtype, 1, "p", "at");
    TextValues marks = {
        {{"i", std::to_string(i)},
         {"place", std::to_string(place)},
         {"storage", storage_type(input.dtype)},
         {"operand", input.mask ? "M" : "T"},
         {"passed", name + (!input.mask  ? ""
                            : width_ > 1 ? " ? -1 : 0"
                                         : " != 0")},
         {"uniform",
          input.by_value ? name : operand_text(input, 1, load_text(input.dtype, 1, name, "0"))},
         {"value", value_type(loaded, width_)},
         {"element", value_type(loaded)},
         {"load", load_text(input.dtype, width_, "p", "at")},
         {"aligned_load", load_text(input.dtype, width_, "p", "at", true)},
         {"vector_bytes", vector_bytes(input.dtype)},
         {"at", input.single ? "0" : "i"},
         {"step", input.single ? "0" : "1"},
         {"padding", source_.divisor == i ? "1" : "0"},
         {"load_one", load_one},
         {"load_each", load_text(input.dtype, 1, "p", "(at + k * stride)")},
         {"converted", operand_text(input, width_, width_ > 1 ? "value" : load_one)}},
        {}};
    marks.set_flag("pointer", !input.by_value);
    return marks;
  }

  // `outputs` and `inputs`; of the inputs `uniforms`, and `reads`, whose elements are read where
  // they are needed; `pointers`, those of both that have strides; `scalars`; `once`, what one work
  // item of a group computes for all of it. Names without "once" are of what has every element.
  void add_operands() {
    auto& lists = marks_.lists;
    for (const char* list : {"outputs", "inputs", "uniforms", "reads", "scalars", "once"})
      lists[list];
    std::vector<std::string> parameters, arguments, once_parameters, once_arguments;
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      lists["outputs"].push_back(output_marks(i));
    }
    lists["pointers"] = lists["outputs"];
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      const auto& input = source_.inputs[i];
      const TextValues marks = input_marks(i, lists["pointers"].size());
      lists["inputs"].push_back(marks);
      if (!input.by_value) lists["pointers"].push_back(marks);
      if (!input.by_value && !input.uniform) lists["reads"].push_back(marks);
      parameters.push_back((input.mask ? "M " : "T ") + input.name);
      arguments.push_back("x" + std::to_string(i));
      if (!input.uniform) continue;
      lists["uniforms"].push_back(marks);
      once_parameters.push_back("S " + input.name);
      once_arguments.push_back("u" + std::to_string(i));
    }
    for (size_t i = 0; i < source_.scalars.size(); ++i) {
      lists["scalars"].push_back({{{"i", std::to_string(i)}}, {}});
      parameters.push_back("T " + source_.scalars[i]);
      arguments.push_back("s" + std::to_string(i));
      once_parameters.push_back("S " + source_.scalars[i]);
      once_arguments.push_back("scalar" + std::to_string(i));
    }
    for (size_t i = 0; i < source_.once.size(); ++i) {
      const auto& [name, expression] = source_.once[i];
      lists["once"].push_back({{{"i", std::to_string(i)}, {"expression", expression}}, {}});
      parameters.push_back("T " + name);
      arguments.push_back("c" + std::to_string(i));
    }
    lists["conditions"];
    marks_.set_flag("checks", source_.divisor.has_value() || !source_.condition.empty());
    if (source_.divisor.has_value()) {
      marks_.texts["flag"] = "int";
      marks_.texts["condition"] = "x" + std::to_string(*source_.divisor) + " == (T)(0)";
    } else if (!source_.condition.empty()) {
      marks_.texts["flag"] = "float";
      marks_.texts["condition"] = "ob_condition(" + c10::Join(", ", arguments) + ")";
      lists["conditions"].push_back({{{"expression", source_.condition}}, {}});
    }
    marks_.set_flag("any_once", !source_.once.empty());
    marks_.texts["once_count"] = std::to_string(source_.once.size());
    marks_.texts["pointer_count"] = std::to_string(lists["pointers"].size());
    marks_.texts["parameters"] = c10::Join(", ", parameters);
    marks_.texts["arguments"] = c10::Join(", ", arguments);
    marks_.texts["once_parameters"] = c10::Join(", ", once_parameters);
    marks_.texts["once_arguments"] = c10::Join(", ", once_arguments);
  }

  void add_kernels() {
    const auto add = [this](const char* name, bool strided, bool crossed) {
      TextValues kernel = {{{"name", name}}, {}};
      kernel.set_flag("many", source_.calls > 0);
      kernel.set_flag("strided", strided);
      kernel.set_flag("layout", strided || crossed);
      kernel.set_flag("crossed", crossed);
      marks_.lists["kernels"].push_back(kernel);
    };
    marks_.set_flag("crosses", source_.crossed);
    if (source_.crossed) {
      add("crossed", false, true);
    } else if (source_.calls > 0) {
      add_calls();
      add("many", false, false);
    } else {
      add("contiguous", false, false);
      add("strided", true, false);
    }
  }

  // Pointers: `listed`, of which each call has its own, and `common`; numbers: `values` and
  // `numbers`, in the same way; outputs `in_place`; `each_call`. Launches pass them in this order.
  void add_calls() {
    auto& lists = marks_.lists;
    for (const char* list : {"listed", "common", "values", "numbers", "in_place"}) lists[list];
    for (size_t i = 0; i < source_.outputs.size(); ++i) {
      TextValues marks = output_marks(i);
      marks.texts["name"] = "out" + std::to_string(i);
      const auto& input = source_.outputs[i].in_place;
      if (input.has_value()) marks.texts["input"] = std::to_string(*input);
      lists[input.has_value() ? "in_place" : "listed"].push_back(marks);
    }
    for (size_t i = 0; i < source_.inputs.size(); ++i) {
      TextValues marks = input_marks(i, 0);
      marks.texts["name"] = "in" + std::to_string(i);
      const auto& input = source_.inputs[i];
      lists[input.by_value ? (input.common ? "numbers" : "values")
                           : (input.common ? "common" : "listed")]
          .push_back(marks);
    }
    for (size_t i = 0; i < source_.scalars.size(); ++i) {
      lists[source_.listed_scalars.at(i) ? "values" : "numbers"].push_back(
          {{{"name", "scalar" + std::to_string(i)}, {"element", value_type(source_.compute)}}, {}});
    }
    add_call_marks(marks_, source_.calls);
    marks_.texts["parts"] = std::to_string(source_.parts());
  }

  const PointwiseSource& source_;
  const int width_;
  TextValues marks_;
};

}  // namespace

void set_pointwise_text(std::string text) { program_text() = std::move(text); }

int PointwiseSource::elements() const { return shape.elements(vector_width(*this)); }

bool PointwiseSource::has_vectors() const { return vector_width(*this) > 1; }

std::string PointwiseSource::text() const {
  return with_type_functions(render(program_text(), Marks(*this).values()));
}

}  // namespace outboard
