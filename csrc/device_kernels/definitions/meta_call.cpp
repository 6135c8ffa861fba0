#include "device_kernels/definitions/meta_call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MetaFunctions.h>
#include <ATen/ops/isin_ops.h>
#include <ATen/ops/norm_ops.h>
#include <ATen/ops/scatter_ops.h>
#include <ATen/ops/scatter_reduce_ops.h>
#include <ATen/ops/sort_ops.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "dispatch/registration.h"

namespace outboard {
namespace {

using c10::KernelFunction;

// `Function` selects an overload of a C++ function.
template <class Function>
KernelFunction boxed(Function* function) {
  return KernelFunction::makeFromUnboxedRuntimeFunction(function);
}

// Overloads without a name of their own whose Meta kernel is one C++ function.
// clang-format off
#define OUTBOARD_META_KERNELS(META)                                                         \
  META(_log_softmax)                          META(_log_softmax_backward_data)              \
  META(_softmax)                              META(_softmax_backward_data)                  \
  META(_upsample_bicubic2d_aa)                META(_upsample_bilinear2d_aa)                 \
  META(_upsample_bilinear2d_aa_backward)      META(_upsample_nearest_exact1d)               \
  META(_upsample_nearest_exact2d)             META(_upsample_nearest_exact2d_backward)      \
  META(_upsample_nearest_exact3d)             META(adaptive_max_pool2d)                     \
  META(adaptive_max_pool2d_backward)          META(adaptive_max_pool3d)                     \
  META(adaptive_max_pool3d_backward)          META(aminmax)                                 \
  META(avg_pool2d)                            META(avg_pool2d_backward)                     \
  META(avg_pool3d)                            META(avg_pool3d_backward)                     \
  META(cat)                                   META(cumprod)                                 \
  META(cumsum)                                META(fractional_max_pool2d)                   \
  META(gather)                                META(glu)                                     \
  META(index_add)                             META(index_copy)                              \
  META(index_reduce)                          META(linalg_cross)                            \
  META(max_pool2d_with_indices)               META(max_pool2d_with_indices_backward)        \
  META(mse_loss)                              META(nll_loss_backward)                       \
  META(nll_loss_forward)                      META(reflection_pad1d)                        \
  META(reflection_pad1d_backward)             META(reflection_pad3d)                        \
  META(reflection_pad3d_backward)             META(renorm)                                  \
  META(replication_pad1d)                     META(replication_pad1d_backward)              \
  META(replication_pad2d)                     META(replication_pad3d)                       \
  META(scatter_add)                           META(smooth_l1_loss)                          \
  META(softshrink)                            META(topk)                                    \
  META(tril)                                  META(triu)                                    \
  META(upsample_bicubic2d)                    META(upsample_bilinear2d)                     \
  META(upsample_linear1d)                     META(upsample_nearest1d)                      \
  META(upsample_nearest2d)                    META(upsample_nearest2d_backward)             \
  META(upsample_nearest3d)                    META(upsample_trilinear3d)
// Overloads by their names.
#define OUTBOARD_META_OVERLOADS(META)                                                       \
  META(isin, Scalar_Tensor)                   META(isin, Tensor_Scalar)                     \
  META(isin, Tensor_Tensor)                   META(norm, ScalarOpt_dim)                     \
  META(norm, ScalarOpt_dim_dtype)             META(scatter, reduce)                         \
  META(scatter, src)                          META(scatter, value)                          \
  META(scatter, value_reduce)                 META(scatter_reduce, two)                     \
  META(sort, stable)
// clang-format on

// PyTorch's Meta kernels in C++, by functional overload. Once PyTorch's Python part is loaded, the
// dispatcher does not reach them: Python functions for tracing replace them. Each call of those
// takes the interpreter lock and up to half a millisecond.
const std::unordered_map<std::string, KernelFunction>& meta_kernels() {
  static const auto* instance = new std::unordered_map<std::string, KernelFunction>{
#define OUTBOARD_META(name) {"aten::" #name, boxed(&at::meta::name)},
      OUTBOARD_META_KERNELS(OUTBOARD_META)
#undef OUTBOARD_META
#define OUTBOARD_META(name, overload) \
  {"aten::" #name "." #overload, boxed<at::_ops::name##_##overload::schema>(&at::meta::name)},
          OUTBOARD_META_OVERLOADS(OUTBOARD_META)
#undef OUTBOARD_META
  };
  return *instance;
}

// "aten::gather" of "aten::gather.out" and of "aten::gather_".
std::string functional_name(const std::string& overload) {
  std::string name = operator_name(overload).name;
  if (name.size() > 1 && name.back() == '_' && name[name.size() - 2] != '_') name.pop_back();
  return name;
}

// True if `functional` has the arguments of `overload` except those of out=.
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

// The functional form of an overload, "aten::gather" of "aten::gather.out", if its Meta kernel is
// in the table; else "".
std::string functional_meta_kernel(const Overload& overload) {
  for (const auto& [name, kernel] : meta_kernels()) {
    if (functional_name(name) != functional_name(overload.name())) continue;
    const auto functional = c10::Dispatcher::singleton().findSchema(operator_name(name));
    if (functional.has_value() && is_form(functional->schema(), overload)) return name;
  }
  return "";
}

constexpr size_t kCachedCalls = 256;  // per overload

at::Tensor meta_like(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  // Type promotion treats wrapped numbers differently, so meta functions get them as they are.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  return at::detail::empty_strided_meta(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

c10::IValue meta_like(const c10::IValue& argument) {
  if (argument.isTensor()) return meta_like(argument.toTensor());
  if (argument.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : argument.toTensorList()) list.push_back(meta_like(tensor));
    return list;
  }
  if (argument.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : argument.toOptionalTensorList()) {
      list.push_back(tensor.has_value() ? std::optional(meta_like(*tensor)) : std::nullopt);
    }
    return list;
  }
  return argument;
}

template <class Facts>
void add_facts(Facts& facts, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    facts.push_back(-1);
    return;
  }
  facts.push_back(tensor.unsafeGetTensorImpl()->is_wrapped_number() ? -2 : tensor.dim());
  facts.push_back(static_cast<int64_t>(tensor.scalar_type()));
  facts.append(tensor.sizes().begin(), tensor.sizes().end());
  facts.append(tensor.strides().begin(), tensor.strides().end());
}

template <class Facts>
void add_number(Facts& facts, double number) {
  int64_t bits = 0;
  std::memcpy(&bits, &number, sizeof bits);
  facts.push_back(bits);
}

// Appends the dtypes, sizes, strides and numbers of an argument; false for an unknown kind.
template <class Facts>
bool add_facts(Facts& facts, const c10::IValue& argument) {
  enum Kind : int64_t { kNone, kTensor, kList, kInt, kBool, kDouble, kComplex, kString };
  if (argument.isNone()) {
    facts.push_back(kNone);
  } else if (argument.isTensor()) {
    facts.push_back(kTensor);
    add_facts(facts, argument.toTensor());
  } else if (argument.isInt()) {
    facts.push_back(kInt);
    facts.push_back(argument.toInt());
  } else if (argument.isBool()) {
    facts.push_back(kBool);
    facts.push_back(argument.toBool());
  } else if (argument.isDouble()) {
    facts.push_back(kDouble);
    add_number(facts, argument.toDouble());
  } else if (argument.isComplexDouble()) {
    facts.push_back(kComplex);
    add_number(facts, argument.toComplexDouble().real());
    add_number(facts, argument.toComplexDouble().imag());
  } else if (argument.isList()) {
    const auto elements = argument.toListRef();
    facts.push_back(kList);
    facts.push_back(static_cast<int64_t>(elements.size()));
    return std::all_of(elements.begin(), elements.end(),
                       [&](const c10::IValue& element) { return add_facts(facts, element); });
  } else if (argument.isString()) {
    const std::string& string = argument.toStringRef();
    facts.push_back(kString);
    facts.push_back(static_cast<int64_t>(string.size()));
    facts.append(string.begin(), string.end());
  } else {
    return false;
  }
  return true;
}

}  // namespace

MetaCall::MetaCall(const std::string& meta_function, const Overload& overload)
    : meta_function_(c10::Dispatcher::singleton().findSchemaOrThrow(
          operator_name(meta_function).name.c_str(),
          operator_name(meta_function).overload_name.c_str())) {
  const auto known = meta_kernels().find(meta_function);
  if (known != meta_kernels().end()) kernel_ = &known->second;
  for (const c10::Argument& argument : meta_function_.schema().arguments()) {
    arguments_.push_back(overload.index(argument.name()));
  }
}

std::unique_ptr<const MetaCall> MetaCall::of(const Definition& definition,
                                             const Overload& overload) {
  std::string name = definition.string("meta");
  if (name.empty()) name = functional_meta_kernel(overload);
  return name.empty() ? nullptr : std::make_unique<const MetaCall>(name, overload);
}

bool MetaCall::add_call(Facts& facts, const Overload& overload,
                        const torch::jit::Stack& stack) const {
  // The dtype of tensors that the meta function makes from numbers.
  facts.push_back(static_cast<int64_t>(at::get_default_dtype_as_scalartype()));
  for (const int argument : arguments_) {
    if (!add_facts(facts, overload.read(stack, argument))) return false;
  }
  return true;
}

MetaCall::Results MetaCall::call(const Overload& overload, const torch::jit::Stack& stack,
                                 bool tries) const {
  Facts facts;
  const bool complete = add_call(facts, overload, stack);
  if (complete) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(facts);
    if (found != known_.end() && (tries || found->second.has_value())) return found->second;
  }
  torch::jit::Stack given;
  for (const int argument : arguments_) {
    given.push_back(meta_like(overload.read(stack, argument)));
  }
  Results results;
  try {
    if (kernel_ != nullptr) {
      kernel_->callBoxed(meta_function_, c10::DispatchKeySet(c10::DispatchKey::Meta), &given);
    } else {
      meta_function_.callBoxedForDispatchKey(c10::DispatchKey::Meta, given);
    }
    results.emplace();
    for (c10::IValue& value : given) results->push_back(std::move(value).toTensor());
  } catch (const std::exception&) {
    if (!tries) throw;
    results.reset();
  }
  if (complete) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (known_.size() >= kCachedCalls) known_.clear();
    known_.emplace(std::move(facts), results);
  }
  return results;
}

}  // namespace outboard
