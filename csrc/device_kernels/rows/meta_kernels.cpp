#include "device_kernels/rows/meta_kernels.h"

#include <ATen/MetaFunctions.h>

#include <unordered_map>

namespace outboard {
namespace {

using c10::KernelFunction;

// With the type given it takes the one of several functions of a name.
template <class Function>
KernelFunction boxed(Function* function) {
  return KernelFunction::makeFromUnboxedRuntimeFunction(function);
}

const std::unordered_map<std::string, KernelFunction>& table() {
  static const auto* instance = new std::unordered_map<std::string, KernelFunction>{
      {"aten::_log_softmax", boxed(&at::meta::_log_softmax)},
      {"aten::_log_softmax_backward_data", boxed(&at::meta::_log_softmax_backward_data)},
      {"aten::_softmax", boxed(&at::meta::_softmax)},
      {"aten::_softmax_backward_data", boxed(&at::meta::_softmax_backward_data)},
      {"aten::_upsample_bicubic2d_aa", boxed(&at::meta::_upsample_bicubic2d_aa)},
      {"aten::_upsample_bilinear2d_aa", boxed(&at::meta::_upsample_bilinear2d_aa)},
      {"aten::_upsample_bilinear2d_aa_backward",
       boxed(&at::meta::_upsample_bilinear2d_aa_backward)},
      {"aten::_upsample_nearest_exact1d", boxed(&at::meta::_upsample_nearest_exact1d)},
      {"aten::_upsample_nearest_exact2d", boxed(&at::meta::_upsample_nearest_exact2d)},
      {"aten::_upsample_nearest_exact2d_backward",
       boxed(&at::meta::_upsample_nearest_exact2d_backward)},
      {"aten::_upsample_nearest_exact3d", boxed(&at::meta::_upsample_nearest_exact3d)},
      {"aten::adaptive_max_pool2d", boxed(&at::meta::adaptive_max_pool2d)},
      {"aten::adaptive_max_pool2d_backward", boxed(&at::meta::adaptive_max_pool2d_backward)},
      {"aten::adaptive_max_pool3d", boxed(&at::meta::adaptive_max_pool3d)},
      {"aten::adaptive_max_pool3d_backward", boxed(&at::meta::adaptive_max_pool3d_backward)},
      {"aten::aminmax", boxed(&at::meta::aminmax)},
      {"aten::avg_pool2d", boxed(&at::meta::avg_pool2d)},
      {"aten::avg_pool2d_backward", boxed(&at::meta::avg_pool2d_backward)},
      {"aten::avg_pool3d", boxed(&at::meta::avg_pool3d)},
      {"aten::avg_pool3d_backward", boxed(&at::meta::avg_pool3d_backward)},
      {"aten::cat", boxed(&at::meta::cat)},
      {"aten::cumprod", boxed(&at::meta::cumprod)},
      {"aten::cumsum", boxed(&at::meta::cumsum)},
      {"aten::fractional_max_pool2d", boxed(&at::meta::fractional_max_pool2d)},
      {"aten::gather", boxed(&at::meta::gather)},
      {"aten::glu", boxed(&at::meta::glu)},
      {"aten::index_add", boxed(&at::meta::index_add)},
      {"aten::index_copy", boxed(&at::meta::index_copy)},
      {"aten::index_reduce", boxed(&at::meta::index_reduce)},
      {"aten::linalg_cross", boxed(&at::meta::linalg_cross)},
      {"aten::max_pool2d_with_indices", boxed(&at::meta::max_pool2d_with_indices)},
      {"aten::max_pool2d_with_indices_backward",
       boxed(&at::meta::max_pool2d_with_indices_backward)},
      {"aten::mse_loss", boxed(&at::meta::mse_loss)},
      {"aten::nll_loss_forward", boxed(&at::meta::nll_loss_forward)},
      {"aten::norm.ScalarOpt_dim",
       boxed<at::Tensor(const at::Tensor&, const std::optional<at::Scalar>&, at::IntArrayRef,
                        bool)>(&at::meta::norm)},
      {"aten::norm.ScalarOpt_dim_dtype",
       boxed<at::Tensor(const at::Tensor&, const std::optional<at::Scalar>&, at::IntArrayRef, bool,
                        at::ScalarType)>(&at::meta::norm)},
      {"aten::renorm", boxed(&at::meta::renorm)},
      {"aten::scatter.reduce",
       boxed<at::Tensor(const at::Tensor&, int64_t, const at::Tensor&, const at::Tensor&,
                        std::string_view)>(&at::meta::scatter)},
      {"aten::scatter.src",
       boxed<at::Tensor(const at::Tensor&, int64_t, const at::Tensor&, const at::Tensor&)>(
           &at::meta::scatter)},
      {"aten::scatter.value",
       boxed<at::Tensor(const at::Tensor&, int64_t, const at::Tensor&, const at::Scalar&)>(
           &at::meta::scatter)},
      {"aten::scatter.value_reduce",
       boxed<at::Tensor(const at::Tensor&, int64_t, const at::Tensor&, const at::Scalar&,
                        std::string_view)>(&at::meta::scatter)},
      {"aten::scatter_add", boxed(&at::meta::scatter_add)},
      {"aten::scatter_reduce.two", boxed(&at::meta::scatter_reduce)},
      {"aten::smooth_l1_loss", boxed(&at::meta::smooth_l1_loss)},
      {"aten::softshrink", boxed(&at::meta::softshrink)},
      {"aten::sort.stable", boxed(&at::meta::sort)},
      {"aten::topk", boxed(&at::meta::topk)},
      {"aten::tril", boxed(&at::meta::tril)},
      {"aten::triu", boxed(&at::meta::triu)},
      {"aten::upsample_bicubic2d", boxed(&at::meta::upsample_bicubic2d)},
      {"aten::upsample_bilinear2d", boxed(&at::meta::upsample_bilinear2d)},
      {"aten::upsample_linear1d", boxed(&at::meta::upsample_linear1d)},
      {"aten::upsample_nearest1d", boxed(&at::meta::upsample_nearest1d)},
      {"aten::upsample_nearest2d", boxed(&at::meta::upsample_nearest2d)},
      {"aten::upsample_nearest2d_backward", boxed(&at::meta::upsample_nearest2d_backward)},
      {"aten::upsample_nearest3d", boxed(&at::meta::upsample_nearest3d)},
      {"aten::upsample_trilinear3d", boxed(&at::meta::upsample_trilinear3d)},
  };
  return *instance;
}

}  // namespace

const KernelFunction* find_meta_kernel(const std::string& overload) {
  const auto found = table().find(overload);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace outboard
