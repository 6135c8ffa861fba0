#include "device_kernels/product/epilogue.h"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/scalar_functions.h"
#include "tensors/empty.h"

namespace outboard {
namespace {

using at::ScalarType;

std::string number(size_t value) { return std::to_string(value); }

// The element type behind an operand's or a result's pointer.
std::string type_of(ScalarType dtype) { return storage_type(dtype); }

std::string load(ScalarType dtype, ScalarType value, int width, const std::string& pointer,
                 const std::string& index) {
  return convert_text(value_dtype(dtype), value, width, load_text(dtype, width, pointer, index));
}

std::string store(ScalarType dtype, ScalarType value, int width, const std::string& pointer,
                  const std::string& index, const std::string& stored) {
  return store_text(dtype, width, pointer, index,
                    convert_text(value, value_dtype(dtype), width, stored));
}

// Whether elements lie at the same distances; a dimension of one element has none. Of matrices,
// rows may have been cut into more dimensions.
bool lies_alike(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == b.numel() && a.is_contiguous() && b.is_contiguous()) return true;
  if (!a.sizes().equals(b.sizes())) return false;
  for (int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  }
  return true;
}

}  // namespace

Epilogue::Epilogue(const Texts& texts, std::vector<ScalarType> operands,
                   std::vector<ScalarType> results)
    : texts_(texts), operands_(std::move(operands)), results_(std::move(results)) {
  TORCH_CHECK_VALUE(!results_.empty(), "an epilogue has at least one result");
  TORCH_CHECK_VALUE(texts_.operands.size() == operands_.size() &&
                        texts_.operands.find_first_not_of("erc") == std::string::npos,
                    "an epilogue has a letter, 'e', 'r' or 'c', for each operand, and got '",
                    texts_.operands, "' for ", operands_.size());
  for (const auto* dtypes : {&operands_, &results_}) {
    for (const ScalarType dtype : *dtypes) {
      TORCH_CHECK_VALUE(has_kernel_type(dtype) && !at::isComplexType(dtype),
                        "an epilogue has no values of the dtype ", dtype);
    }
  }
}

const Epilogue& Epilogue::of(const Texts& texts, const std::vector<at::Tensor>& operands,
                             const std::vector<ScalarType>& results) {
  using Key = std::tuple<std::string, int, std::string, std::string, std::vector<ScalarType>,
                         std::vector<ScalarType>>;
  static auto* mutex = new std::mutex;
  static auto* known = new std::map<Key, std::unique_ptr<const Epilogue>>;
  std::vector<ScalarType> dtypes;
  for (const at::Tensor& operand : operands) dtypes.push_back(operand.scalar_type());
  const Key key{texts.of_row, texts.row_values, texts.body, texts.operands, dtypes, results};
  std::lock_guard<std::mutex> lock(*mutex);
  auto& found = (*known)[key];
  if (found == nullptr) found.reset(new Epilogue(texts, dtypes, results));
  return *found;
}

std::string Epilogue::function(const std::string& head, const std::string& statements,
                               const std::string& letters) const {
  std::string text = "static inline void " + head;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (letters.find(texts_.operands[i]) != std::string::npos) text += ", const T b" + number(i);
  }
  return text + ") { " + statements + " }\n";
}

std::string Epilogue::text(ScalarType value, int width) const {
  std::string text = scalar_functions_text(value, width, texts_.of_row + " " + texts_.body);
  text += "#define FUSED\n#define OUT " + type_of(results_[0]) + "\n";
  text += function("ob_of_row(T *k", texts_.of_row, "r");
  text += function("ob_results(const T a, const T *k, T *r", texts_.body, "ec");
  text += "#undef T\n#undef M\n#undef C\n";

  std::string parameters, binds, members, names;
  const auto pointer = [&](const std::string& name, const std::string& type, const char* constant) {
    parameters += "OB_POINTER(" + type + ", " + name + "), ";
    binds += "OB_BIND(" + type + ", " + name + ") ";
    members += std::string("  ") + constant + "__global " + type + " *" + name + ";\n";
    names += name + ", ";
  };
  for (size_t i = 0; i < operands_.size(); ++i) {
    pointer("b" + number(i), type_of(operands_[i]), "const ");
  }
  for (size_t i = 1; i < results_.size(); ++i) {
    pointer("r" + number(i), type_of(results_[i]), "");
  }
  text += "#define FUSED_PARAMETERS " + parameters + "\n";
  // One member more, so that a structure without pointers is one, too.
  text += "#define FUSED_BIND " + binds + "Fused fused = {" + names + "{(V)(0)}};\n";
  text +=
      "typedef struct {\n" + members + "  V k[" + number(texts_.row_values + 1) + "];\n} Fused;\n";

  std::string rows, vectors, gathered, gathers;
  for (size_t i = 0; i < operands_.size(); ++i) {
    const std::string name = "b" + number(i), from = "(f->" + name + ")";
    const char letter = texts_.operands[i];
    if (letter == 'r') {
      rows += ", (V)(" + load(operands_[i], value, 1, from, "(row)") + ")";
      continue;
    }
    const std::string index = letter == 'e' ? "(at)" : "(column)";
    vectors += ", " + load(operands_[i], value, width, from, index);
    const std::string lane = letter == 'e' ? "(at[i])" : "(column + i)";
    gathers += "  S " + name + "[W];\n  for (int i = 0; i < W; ++i) " + name +
               "[i] = at[i] >= 0 ? " + load(operands_[i], value, 1, from, lane) + " : (S)0;\n";
    gathered += ", VLOAD(0, " + name + ")";
  }
  const std::string count = number(results_.size());
  std::string stores, scatters;
  for (size_t i = 0; i < results_.size(); ++i) {
    const std::string to = i == 0 ? "(out)" : "(f->r" + number(i) + ")";
    const std::string result = "r[" + number(i) + "]";
    stores += "  " + store(results_[i], value, width, to, "(at)", result) + "\n";
    scatters += "  VSTORE(" + result + ", 0, lanes);\n  for (int i = 0; i < W; ++i) {\n" +
                "    if (at[i] >= 0) " + store(results_[i], value, 1, to, "(at[i])", "lanes[i]") +
                "\n  }\n";
  }
  text +=
      "static inline void fused_row(Fused *f, const I row) {\n  ob_of_row(f->k" + rows + ");\n}\n";
  text +=
      "static inline void fused_store(const Fused *f, __global OUT *out, const I at, const I "
      "column, const V a) {\n  V r[" +
      count + "];\n  ob_results(a, f->k, r" + vectors + ");\n" + stores + "}\n";
  text +=
      "static inline void fused_scatter(const Fused *f, __global OUT *out, const I *at, const I "
      "column, const V a) {\n  V r[" +
      count + "];\n" + gathers + "  ob_results(a, f->k, r" + gathered + ");\n  S lanes[W];\n" +
      scatters + "}\n";
  return text;
}

BoundEpilogue::BoundEpilogue(const Epilogue& epilogue, std::vector<at::Tensor> operands,
                             const at::Tensor& out, int64_t rows, int64_t columns)
    : epilogue_(&epilogue), operands_(std::move(operands)), results_({out}) {
  const c10::DeviceIndex device = out.device().index();
  for (size_t i = 1; i < epilogue.results().size(); ++i) {
    results_.push_back(empty_strided_on(device, out.sizes(), out.strides(), epilogue.results()[i]));
  }
  for (size_t i = 0; i < operands_.size(); ++i) {
    at::Tensor& operand = operands_[i];
    TORCH_CHECK_VALUE(operand.device() == out.device() && !operand.is_neg(), "operand ", i,
                      " of an epilogue is a tensor on ", out.device(), ", and got one on ",
                      operand.device());
    const char place = epilogue.places()[i];
    if (place != 'e') {
      const int64_t length = place == 'r' ? rows : columns;
      if (operand.numel() == length && operand.is_contiguous()) continue;
      operand = operand.reshape({-1}).expand({length}).contiguous();
    } else if (!lies_alike(operand, out)) {
      const at::Tensor copy =
          empty_strided_on(device, out.sizes(), out.strides(), operand.scalar_type());
      copy.copy_(operand.reshape(out.sizes()));
      operand = copy;
    }
  }
}

void BoundEpilogue::add_arguments(LaunchArguments& arguments, int64_t first) const {
  for (size_t i = 0; i < operands_.size(); ++i) {
    const auto size = static_cast<int64_t>(operands_[i].element_size());
    const int64_t bytes = epilogue_->places()[i] == 'e' ? first * size : 0;
    arguments.address(static_cast<const char*>(operands_[i].const_data_ptr()) + bytes);
  }
  for (size_t i = 1; i < results_.size(); ++i) {
    const auto size = static_cast<int64_t>(results_[i].element_size());
    arguments.address(static_cast<char*>(results_[i].mutable_data_ptr()) + first * size);
  }
}

}  // namespace outboard
