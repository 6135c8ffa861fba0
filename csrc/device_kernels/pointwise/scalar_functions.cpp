#include "device_kernels/pointwise/scalar_functions.h"

#include <c10/util/Exception.h>

#include <cctype>
#include <mutex>
#include <set>

#include "device_kernels/kernel_types.h"

namespace outboard {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, ScalarFunction> functions;
};

Table& table() {
  static Table* instance = new Table;
  return *instance;
}

const char* kind_of(at::ScalarType dtype) {
  if (at::isComplexType(dtype)) return "complex";
  return at::isFloatingType(dtype) ? "float" : "integer";
}

// Calls visit(name) for every ob_<name> in the text.
template <class Visit>
void for_each_call(const std::string& text, Visit&& visit) {
  for (size_t at = text.find("ob_"); at != std::string::npos; at = text.find("ob_", at + 1)) {
    const auto word = [&](size_t i) {
      return i < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_');
    };
    if (at > 0 && word(at - 1)) continue;
    size_t end = at + 3;
    while (word(end)) ++end;
    visit(text.substr(at + 3, end - at - 3));
  }
}

// Appends the definitions of what `text` calls, callees first.
void define(const std::map<std::string, ScalarFunction>& functions, const char* kind,
            const std::string& text, std::set<std::string>& defined, std::string& result) {
  for_each_call(text, [&](const std::string& name) {
    const auto function = functions.find(name);
    if (function == functions.end() || !defined.insert(name).second) return;
    const auto variant = function->second.find(kind);
    TORCH_CHECK_VALUE(variant != function->second.end(), "the scalar function '", name,
                      "' does not exist for ", kind, " values");
    define(functions, kind, variant->second, defined, result);
    result += variant->second + "\n";
  });
}

}  // namespace

void set_scalar_functions(std::map<std::string, ScalarFunction> functions) {
  Table& all = table();
  std::lock_guard<std::mutex> lock(all.mutex);
  all.functions = std::move(functions);
}

std::string scalar_functions_text(at::ScalarType dtype, int width, const std::string& text) {
  std::string result = "#define T " + value_type(dtype, width) + "\n#define M " +
                       mask_type(dtype, width) + "\n#define C(x) ((T)(x))\n#define S " +
                       value_type(c10::toRealValueType(dtype)) + "\n";
  if (dtype == at::ScalarType::Bool) result += "#define OB_BOOL\n";
  if (dtype == at::ScalarType::Double || dtype == at::ScalarType::ComplexDouble) {
    result += "#define OB_DOUBLE\n";
  }
  if (dtype == at::ScalarType::Float) {
    result += "#define OB_BITS(x) as_" + mask_type(dtype, width) + "(x)\n#define OB_VALUE(x) as_" +
              value_type(dtype, width) + "(x)\n";
  }
  result += std::string("#define OB_ANY(m) ") + (width == 1 ? "(m)\n" : "any(m)\n");
  result += "#define OB_WIDTH " + std::to_string(width) + "\n";
  Table& all = table();
  std::lock_guard<std::mutex> lock(all.mutex);
  std::set<std::string> defined;
  define(all.functions, kind_of(dtype), text, defined, result);
  return result;
}

}  // namespace outboard
