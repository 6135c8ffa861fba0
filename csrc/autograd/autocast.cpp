// PyTorch's autocast lists of operators and casts, registered for the device.
#include "autograd/autocast.h"

#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include <mutex>
#include <utility>

#include "torch_version.h"

namespace outboard {
namespace {

// Used without a namespace in PyTorch's lists.
using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor refuse_binary_cross_entropy(const Tensor&, const Tensor&, const std::optional<Tensor>&,
                                   int64_t) {
  TORCH_CHECK(false,
              "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to "
              "autocast: the gradient of a low-precision sigmoid's logarithm is lost; use "
              "binary_cross_entropy_with_logits or BCEWithLogitsLoss without the sigmoid layer");
}

// Replaces torch::Library in PyTorch's macros: registers only missing policies.
class MissingPolicies {
 public:
  explicit MissingPolicies(torch::Library& library) : library_(library) {}

  template <class Function>
  void impl(const char* name, Function&& function) {
    const std::string full(name);
    const size_t dot = full.find('.');
    const auto handle = c10::Dispatcher::singleton().findSchema(
        {full.substr(0, dot), dot == std::string::npos ? "" : full.substr(dot + 1)});
    if (handle.has_value() && handle->hasKernelForDispatchKey(kAutocastKey)) return;
    library_.impl(name, std::forward<Function>(function));
  }

 private:
  torch::Library& library_;
};

#define OUTBOARD_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define OUTBOARD_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define OUTBOARD_FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define OUTBOARD_PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

void register_lists(MissingPolicies m) {
  AT_FORALL_LOWER_PRECISION_FP(OUTBOARD_LOWER_PRECISION)
  AT_FORALL_FP32(OUTBOARD_FLOAT32)
#if OUTBOARD_TORCH_AT_LEAST(14)
  // PyTorch registers it separately; it is in none of its lists.
  OUTBOARD_FLOAT32(linalg_matrix_sqrth)
#endif
  AT_FORALL_FP32_SET_OPT_DTYPE(OUTBOARD_FLOAT32_RESULT)
  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
  AT_FORALL_PROMOTE(OUTBOARD_PROMOTE)
  m.impl("aten::binary_cross_entropy", TORCH_FN(refuse_binary_cross_entropy));
}

#undef OUTBOARD_LOWER_PRECISION
#undef OUTBOARD_FLOAT32
#undef OUTBOARD_FLOAT32_RESULT
#undef OUTBOARD_PROMOTE

torch::Library& new_library(const char* name_space) {
  // Registrations last until process exit.
  return *new torch::Library(torch::Library::IMPL, name_space, kAutocastKey, __FILE__, __LINE__);
}

}  // namespace

void register_autocast() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kAutocastKey)) {
      new_library("_").fallback(torch::CppFunction::makeFallthrough());
    }
    register_lists(MissingPolicies(new_library("aten")));
  });
}

}  // namespace outboard
