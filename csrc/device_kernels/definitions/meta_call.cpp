#include "device_kernels/definitions/meta_call.h"

#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <optional>
#include <utility>

#include "device_kernels/definitions/meta_kernels.h"

namespace outboard {
namespace {

constexpr size_t kRemembered = 256;  // results for an overload

c10::OperatorHandle find_meta_function(const std::string& name) {
  const size_t dot = name.find('.');
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      name.substr(0, dot).c_str(), dot == std::string::npos ? "" : name.substr(dot + 1).c_str());
}

at::Tensor meta_like(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  // A number that became a tensor promotes others less, and meta functions in Python need to see
  // it.
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

// Appends what a Meta kernel sees of an argument; false for kinds that are not known here.
template <class Facts>
bool add_facts(Facts& facts, const c10::IValue& argument) {
  enum Kind : int64_t {
    kNone,
    kTensor,
    kTensors,
    kInt,
    kBool,
    kDouble,
    kComplex,
    kInts,
    kDoubles,
    kText,
    kOptionalTensors,
    kBools
  };
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
  } else if (argument.isTensorList()) {
    const auto tensors = argument.toTensorList();
    facts.push_back(kTensors);
    facts.push_back(static_cast<int64_t>(tensors.size()));
    for (const at::Tensor& tensor : tensors) add_facts(facts, tensor);
  } else if (argument.isOptionalTensorList()) {
    const auto tensors = argument.toListRef();
    facts.push_back(kOptionalTensors);
    facts.push_back(static_cast<int64_t>(tensors.size()));
    for (const c10::IValue& tensor : tensors) {
      add_facts(facts, tensor.isTensor() ? tensor.toTensor() : at::Tensor());
    }
  } else if (argument.isBoolList()) {
    const auto flags = argument.toBoolList();
    facts.push_back(kBools);
    facts.push_back(static_cast<int64_t>(flags.size()));
    for (const bool flag : flags) facts.push_back(flag);
  } else if (argument.isIntList()) {
    const auto numbers = argument.toIntList();
    facts.push_back(kInts);
    facts.push_back(static_cast<int64_t>(numbers.size()));
    for (const int64_t number : numbers) facts.push_back(number);
  } else if (argument.isDoubleList()) {
    const auto numbers = argument.toDoubleList();
    facts.push_back(kDoubles);
    facts.push_back(static_cast<int64_t>(numbers.size()));
    for (const double number : numbers) add_number(facts, number);
  } else if (argument.isString()) {
    const std::string& text = argument.toStringRef();
    facts.push_back(kText);
    facts.push_back(static_cast<int64_t>(text.size()));
    for (const char letter : text) facts.push_back(letter);
  } else {
    return false;
  }
  return true;
}

}  // namespace

MetaCall::MetaCall(const std::string& meta_function, const Overload& overload)
    : meta_function_(find_meta_function(meta_function)), kernel_(find_meta_kernel(meta_function)) {
  for (const c10::Argument& argument : meta_function_.schema().arguments()) {
    arguments_.push_back(overload.index(argument.name()));
  }
}

std::unique_ptr<const MetaCall> MetaCall::of(const Definition& definition,
                                             const Overload& overload) {
  std::string name = definition.text("meta");
  if (name.empty()) name = functional_meta_kernel(overload);
  return name.empty() ? nullptr : std::make_unique<const MetaCall>(name, overload);
}

size_t MetaCall::FactsHash::operator()(const Facts& facts) const noexcept {
  uint64_t hash = facts.size();
  for (const int64_t fact : facts) {
    hash = (hash ^ static_cast<uint64_t>(fact)) * 0x9e3779b97f4a7c15;  // Fibonacci hashing
    hash ^= hash >> 32;
  }
  return hash;
}

bool MetaCall::add_call(Facts& facts, const Overload& overload,
                        const torch::jit::Stack& stack) const {
  // Where the meta function turns numbers into tensors.
  facts.push_back(static_cast<int64_t>(at::get_default_dtype_as_scalartype()));
  for (const int argument : arguments_) {
    if (!add_facts(facts, overload.read(stack, argument))) return false;
  }
  return true;
}

std::optional<std::vector<at::Tensor>> MetaCall::try_results(const Overload& overload,
                                                             const torch::jit::Stack& stack) const {
  Facts facts;
  const bool complete = add_call(facts, overload, stack);
  if (complete) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (refused_.count(facts) != 0) return std::nullopt;
  }
  try {
    return results(overload, stack);
  } catch (const std::exception&) {
    if (!complete) return std::nullopt;
    std::lock_guard<std::mutex> lock(mutex_);
    if (refused_.size() >= kRemembered) refused_.clear();
    refused_.insert(std::move(facts));
    return std::nullopt;
  }
}

std::vector<at::Tensor> MetaCall::results(const Overload& overload,
                                          const torch::jit::Stack& stack) const {
  Facts facts;
  const bool complete = add_call(facts, overload, stack);
  if (complete) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = known_.find(facts);
    if (found != known_.end()) return found->second;
  }
  torch::jit::Stack given;
  for (const int argument : arguments_) {
    given.push_back(meta_like(overload.read(stack, argument)));
  }
  if (kernel_ != nullptr) {
    kernel_->callBoxed(meta_function_, c10::DispatchKeySet(c10::DispatchKey::Meta), &given);
  } else {
    meta_function_.callBoxedForDispatchKey(c10::DispatchKey::Meta, given);
  }
  std::vector<at::Tensor> results;
  for (c10::IValue& value : given) results.push_back(std::move(value).toTensor());
  if (complete) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (known_.size() >= kRemembered) known_.clear();
    known_.emplace(std::move(facts), results);
  }
  return results;
}

}  // namespace outboard
