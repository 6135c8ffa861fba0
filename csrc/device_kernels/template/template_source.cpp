#include "device_kernels/template/template_source.h"

#include <sstream>

#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/scalar_functions.h"

namespace outboard {
namespace {

using at::ScalarType;

const char* item_type(ScalarType dtype) {
  switch (c10::elementSize(dtype)) {
    case 1:
      return "uchar";
    case 2:
      return "ushort";
    case 4:
      return "uint";
    case 8:
      return "ulong";
    default:
      return "ulong2";
  }
}

}  // namespace

const char* TemplateSource::options() const {
  return literal_options(moves_items ? ScalarType::Float : value_dtype(compute));
}

std::string TemplateSource::program() const {
  const ScalarType value = value_dtype(compute);
  std::ostringstream out;
  out << "typedef " << (wide ? "long" : "int") << " ob_index;\n";
  out << "typedef struct { ob_index dims; ob_index size[" << kTemplateDimensions
      << "]; ob_index stride[" << kTemplateDimensions << "]; } ob_layout;\n";
  out << "typedef struct { ob_index at[" << kTemplateList << "]; } ob_list;\n";
  out << "#define OB_LOCAL " << local << "\n#define OB_GPU " << (gpu ? 1 : 0) << "\n#define W "
      << width << "\n";
  if (moves_items) {
    const std::string item = item_type(compute);
    out << "typedef " << item << " V;\n#define R float\n";
  } else {
    const bool twice = value == ScalarType::Double || value == ScalarType::ComplexDouble;
    out << scalar_functions_text(value, width, text);
    out << "typedef " << value_type(value) << " V;\n";
    if (!at::isComplexType(value)) {
      for (int part = width; part > 1; part /= 2) {
        out << "typedef " << value_type(value, part) << " ob_value" << part << ";\n";
      }
    }
    out << "#define R " << (twice ? "double" : "float") << "\n";
    out << "#define OB_FLOATING " << (at::isFloatingType(value) ? 1 : 0) << "\n";
    out << "#define OB_COMPLEX " << (at::isComplexType(value) ? 1 : 0) << "\n";
    out << "#define OB_DTYPE_BITS " << 8 * c10::elementSize(compute) << "\n";
  }
  for (const auto& [name, number] : constants) {
    out << "#define " << name << " (" << number << ")\n";
  }

  std::ostringstream parameters;
  std::ostringstream begin;
  for (const Tensor& tensor : tensors) {
    const bool there = tensor.dtype != ScalarType::Undefined;
    const std::string& name = tensor.name;
    const std::string storage = !there         ? "uchar"
                                : tensor.items ? item_type(tensor.dtype)
                                               : storage_type(tensor.dtype);
    out << "#define HAS_" << name << " " << (there ? 1 : 0) << "\n";
    out << "typedef " << storage << " " << name << "_t;\n";
    parameters << "OB_POINTER(" << storage << ", " << name << "), ";
    begin << "OB_BIND(" << storage << ", " << name << ") ";
    if (tensor.strided) parameters << "const ob_layout " << name << "_layout, ";
    if (!there) continue;
    if (tensor.items) {
      out << "typedef " << storage << " " << name << "_value;\n";
      out << "#define " << name << "_load(i) " << name << "[i]\n";
      out << "#define " << name << "_store(i, v) " << name << "[i] = (v)\n";
      continue;
    }
    const ScalarType own = value_dtype(tensor.dtype);
    out << "typedef " << value_type(tensor.dtype) << " " << name << "_value;\n";
    out << "#define " << name << "_load(i) (" << load_text(tensor.dtype, 1, name, "(i)") << ")\n";
    std::string store =
        store_text(tensor.dtype, 1, name, "(i)", convert_text(value, own, 1, "(v)"));
    store.pop_back();  // the semicolon is the caller's
    out << "#define " << name << "_store(i, v) " << store << "\n";
    if (width > 1 && !at::isComplexType(tensor.dtype)) {
      out << "#define " << name << "_load_vector(i) ("
          << convert_text(own, value, width,
                          "(" + load_text(tensor.dtype, width, name, "(i)") + ")")
          << ")\n";
      std::string stored =
          store_text(tensor.dtype, width, name, "(i)", convert_text(value, own, width, "(v)"));
      stored.pop_back();
      out << "#define " << name << "_store_vector(i, v) " << stored << "\n";
    } else if (width == 1) {
      out << "#define " << name << "_load_vector(i) " << name << "_load(i)\n";
      out << "#define " << name << "_store_vector(i, v) " << name << "_store(i, v)\n";
    }
  }
  for (const std::string& name : scalars) parameters << "const V " << name << ", ";
  for (const std::string& name : numbers) parameters << "const ob_index " << name << ", ";
  for (const std::string& name : reals) parameters << "const R " << name << ", ";
  for (const std::string& name : lists) parameters << "const ob_list " << name << ", ";
  if (reports) {
    parameters << "OB_POINTER(int, ob_report), ";
    begin << "OB_BIND(int, ob_report) ";
    out << "#define OB_REPORT ob_report[0] = 1;\n";
  } else {
    out << "#define OB_REPORT\n";
  }
  if (random) parameters << "const ulong ob_seed, const ulong ob_offset, ";
  parameters << "const ob_index ob_items, const ob_index ob_step";
  out << "#define OB_PARAMETERS " << parameters.str() << "\n";
  out << "#define OB_BEGIN " << begin.str() << "\n";
  out << text;
  return with_type_functions(out.str());
}

}  // namespace outboard
