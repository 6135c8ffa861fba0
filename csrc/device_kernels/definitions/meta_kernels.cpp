#include "device_kernels/definitions/meta_kernels.h"

#include <ATen/MetaFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>

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
      {"aten::isin.Scalar_Tensor",
       boxed<at::Tensor(const at::Scalar&, const at::Tensor&, bool, bool)>(&at::meta::isin)},
      {"aten::isin.Tensor_Scalar",
       boxed<at::Tensor(const at::Tensor&, const at::Scalar&, bool, bool)>(&at::meta::isin)},
      {"aten::isin.Tensor_Tensor",
       boxed<at::Tensor(const at::Tensor&, const at::Tensor&, bool, bool)>(&at::meta::isin)},
      {"aten::linalg_cross", boxed(&at::meta::linalg_cross)},
      {"aten::max_pool2d_with_indices", boxed(&at::meta::max_pool2d_with_indices)},
      {"aten::max_pool2d_with_indices_backward",
       boxed(&at::meta::max_pool2d_with_indices_backward)},
      {"aten::mse_loss", boxed(&at::meta::mse_loss)},
      {"aten::nll_loss_backward", boxed(&at::meta::nll_loss_backward)},
      {"aten::nll_loss_forward", boxed(&at::meta::nll_loss_forward)},
      {"aten::norm.ScalarOpt_dim",
       boxed<at::Tensor(const at::Tensor&, const std::optional<at::Scalar>&, at::IntArrayRef,
                        bool)>(&at::meta::norm)},
      {"aten::norm.ScalarOpt_dim_dtype",
       boxed<at::Tensor(const at::Tensor&, const std::optional<at::Scalar>&, at::IntArrayRef, bool,
                        at::ScalarType)>(&at::meta::norm)},
      {"aten::reflection_pad1d", boxed(&at::meta::reflection_pad1d)},
      {"aten::reflection_pad1d_backward", boxed(&at::meta::reflection_pad1d_backward)},
      {"aten::reflection_pad3d", boxed(&at::meta::reflection_pad3d)},
      {"aten::reflection_pad3d_backward", boxed(&at::meta::reflection_pad3d_backward)},
      {"aten::renorm", boxed(&at::meta::renorm)},
      {"aten::replication_pad1d", boxed(&at::meta::replication_pad1d)},
      {"aten::replication_pad1d_backward", boxed(&at::meta::replication_pad1d_backward)},
      {"aten::replication_pad2d", boxed(&at::meta::replication_pad2d)},
      {"aten::replication_pad3d", boxed(&at::meta::replication_pad3d)},
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

// "gather" of "aten::gather.out" and of "aten::gather_".
std::string operator_of(const std::string& overload) {
  std::string name = overload.substr(0, overload.find('.'));
  if (name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_') name.pop_back();
  return name;
}

// Whether `functional` has the arguments of `overload`, apart from those of out=.
bool is_form(const c10::FunctionSchema& functional, const Overload& overload) {
  size_t arguments = overload.argument_count();
  if (overload.form() == Overload::Form::kOut) arguments -= overload.written_count();
  if (functional.arguments().size() != arguments) return false;
  for (size_t i = 0; i < arguments; ++i) {
    const c10::Argument& ours = overload.argument(static_cast<int>(i));
    const c10::Argument& theirs = functional.arguments()[i];
    if (ours.name() != theirs.name() || *ours.type() != *theirs.type()) return false;
  }
  return true;
}

}  // namespace

std::string functional_meta_kernel(const Overload& overload) {
  for (const auto& [name, kernel] : table()) {
    if (operator_of(name) != operator_of(overload.name())) continue;
    const size_t dot = name.find('.');
    const auto functional = c10::Dispatcher::singleton().findSchema(
        {name.substr(0, dot), dot == std::string::npos ? "" : name.substr(dot + 1)});
    if (functional.has_value() && is_form(functional->schema(), overload)) return name;
  }
  return "";
}

const KernelFunction* find_meta_kernel(const std::string& overload) {
  const auto found = table().find(overload);
  return found == table().end() ? nullptr : &found->second;
}

}  // namespace outboard
