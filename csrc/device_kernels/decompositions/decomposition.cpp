// Decompositions: operators made of other operators of the device.
//
// Operators called by the body are dispatched like any other call, and may run on the host.
// Autograd and autocast do not see them. Given results that overlap an argument are written after
// everything has been computed.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <string>
#include <vector>

#include "device_kernels/defined_kernel.h"
#include "device_kernels/definitions/meta_call.h"
#include "device_kernels/definitions/overload.h"
#include "device_kernels/kernel_types.h"
#include "dispatch/tensor_arguments.h"
#include "tensors/dense.h"
#include "transfer/copy.h"

namespace outboard {

namespace {

// The version of each tensor among the values, also in lists: writes change it. Inference tensors
// have none.
std::vector<int64_t> versions_of(const torch::jit::Stack& values) {
  std::vector<int64_t> versions;
  for (const c10::IValue& value : values) {
    for_each_tensor(value, [&](const at::Tensor& tensor) {
      if (!tensor.is_inference()) versions.push_back(tensor._version());
    });
  }
  return versions;
}

}  // namespace

class Decomposition final : public DefinedKernel {
 public:
  Decomposition(const Definition& definition, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  bool serves(const torch::jit::Stack& stack, c10::DeviceIndex device) const;
  // True if the given outputs accept values of these dtypes; raises PyTorch's error.
  bool can_deliver(const torch::jit::Stack& stack, const std::vector<at::Tensor>& computed) const;
  void deliver(torch::jit::Stack* stack, std::vector<at::Tensor> computed,
               c10::DeviceIndex device) const;
  [[noreturn]] void raise_half_done() const;
  std::vector<at::Tensor> make_results(const torch::jit::Stack& stack,
                                       const std::vector<at::Tensor>& meta,
                                       c10::DeviceIndex device) const;
  bool call_body(torch::jit::Stack& values, bool watched, bool& wrote) const;

  // Parameters of the body: arguments by their index in the overload, then results.
  std::vector<size_t> indices_;
  DecompositionFunction::Arguments parameters_;
  DecompositionFunction::Arguments returns_;
  size_t inputs_ = 0;  // arguments of the overload except those of out=
  const Definition::Function body_;
  const uint64_t dtypes_;
  const std::string casts_;
  const bool cpu_arguments_;
  const std::vector<int> number_arguments_;
  const DefinedAssert assert_;
  std::unique_ptr<const MetaCall> meta_;
  bool writes_ = false;            // results
  bool writes_arguments_ = false;  // other than those of out=
};

namespace {

// The first tensor of the call, which determines the dtype.
const at::Tensor* first_tensor(const Overload& overload, size_t inputs,
                               const torch::jit::Stack& stack) {
  for (size_t i = 0; i < inputs; ++i) {
    const c10::IValue& value = overload.read(stack, static_cast<int>(i));
    if (value.isTensor()) return &value.toTensor();
    if (value.isTensorList()) {
      const auto elements = value.toListRef();
      return elements.empty() ? nullptr : &elements[0].toTensor();
    }
  }
  return nullptr;
}

}  // namespace

Decomposition::Decomposition(const Definition& definition, const c10::FunctionSchema& schema)
    : DefinedKernel(definition, schema),
      body_(definition.function("body")),
      dtypes_(definition.dtypes()),
      casts_(definition.string("casts")),
      cpu_arguments_(definition.flag("cpu_arguments")),
      number_arguments_(number_arguments(overload_)),
      assert_(definition, overload_.name()),
      writes_(!definition.strings("results").empty()) {
  inputs_ = overload_.argument_count();
  if (overload_.form() == Overload::Form::kOut) inputs_ -= overload_.result_count();
  const std::vector<std::string>& results = definition.strings("results");
  TORCH_CHECK_VALUE(body_ != nullptr, "the definition of ", overload_.name(), " has no body");
  for (const std::string& name : body_->parameters) {
    const int argument = overload_.find(name);
    const auto result = std::find(results.begin(), results.end(), name);
    if (result != results.end()) {
      indices_.push_back(inputs_ + static_cast<size_t>(result - results.begin()));
      parameters_.emplace_back(name, c10::TensorType::get());
      continue;
    }
    TORCH_CHECK_VALUE(argument >= 0 && argument < static_cast<int>(inputs_), "the body of ",
                      overload_.name(), " has a parameter '", name,
                      "', which is neither an argument nor a result");
    indices_.push_back(static_cast<size_t>(argument));
    parameters_.push_back(overload_.argument(argument));
  }
  if (!writes_) returns_ = schema.returns();
  for (size_t i = 0; i < inputs_; ++i) {
    writes_arguments_ |= overload_.writes(static_cast<int>(i));
  }
  meta_ = MetaCall::of(definition, overload_);
  TORCH_CHECK_VALUE(!writes_ || meta_ != nullptr, "the definition of ", overload_.name(),
                    " names results without a Meta kernel that makes them");
}

bool Decomposition::serves(const torch::jit::Stack& stack, c10::DeviceIndex device) const {
  const at::Tensor* first = first_tensor(overload_, inputs_, stack);
  if (first != nullptr) {
    if (!first->defined() || (dtypes_ & dtype_bit(first->scalar_type())) == 0 ||
        !computes(device, first->scalar_type()) ||
        (cpu_arguments_ && !is_dense_on(*first, device)) ||
        !takes_numbers(first->scalar_type(), number_arguments_, overload_, stack)) {
      return false;
    }
  }
  const auto unusable = [&](const at::Tensor& tensor) {
    const bool on_cpu = tensor.is_cpu() && (cpu_arguments_ || tensor.dim() == 0);
    return !(on_cpu || is_dense_on(tensor, device)) || !computes(device, tensor.scalar_type());
  };
  for (size_t i = 0; i < overload_.argument_count(); ++i) {
    if (any_tensor(overload_.read(stack, static_cast<int>(i)), unusable)) return false;
  }
  if (overload_.form() == Overload::Form::kFunctional) return true;
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const at::Tensor& given = overload_.given_output(stack, k);
    if (!is_dense_on(given, device) || given.is_conj() || given.is_neg()) return false;
  }
  // The CPU kernel knows which arguments may alias `out`.
  return writes_apart(overload_, stack);
}

std::vector<at::Tensor> Decomposition::make_results(const torch::jit::Stack& stack,
                                                    const std::vector<at::Tensor>& meta,
                                                    c10::DeviceIndex device) const {
  std::vector<at::Tensor> results;
  for (size_t k = 0; k < meta.size(); ++k) {
    const at::Tensor& given = overload_.given_output(stack, k);
    bool elsewhere = !given.defined() || given.scalar_type() != meta[k].scalar_type() ||
                     given.sizes() != meta[k].sizes();
    for (size_t i = 0; i < inputs_ && !elsewhere; ++i) {
      elsewhere = any_tensor(overload_.read(stack, static_cast<int>(i)),
                             [&](const at::Tensor& tensor) { return may_overlap(given, tensor); });
    }
    results.push_back(elsewhere ? empty_strided_on(device, meta[k].sizes(), meta[k].strides(),
                                                   meta[k].scalar_type())
                                : given);
  }
  return results;
}

bool Decomposition::can_deliver(const torch::jit::Stack& stack,
                                const std::vector<at::Tensor>& computed) const {
  if (overload_.form() == Overload::Form::kFunctional) return true;
  for (size_t k = 0; k < computed.size(); ++k) {
    const at::ScalarType wanted = overload_.given_output(stack, k).scalar_type();
    const at::ScalarType dtype = computed[k].scalar_type();
    if (wanted == dtype) continue;
    if (casts_.empty()) return false;  // the CPU kernel knows PyTorch's rule for these casts
    const bool possible = c10::canCast(dtype, wanted);
    TORCH_CHECK_TYPE(possible || casts_ != "TypeError", "result type ", dtype,
                     " can't be cast to the desired output type ", wanted);
    TORCH_CHECK(possible, "result type ", dtype, " can't be cast to the desired output type ",
                wanted);
  }
  return true;
}

void Decomposition::deliver(torch::jit::Stack* stack, std::vector<at::Tensor> computed,
                            c10::DeviceIndex device) const {
  if (overload_.form() != Overload::Form::kFunctional) {
    for (size_t k = 0; k < computed.size(); ++k) {
      const at::Tensor& given = overload_.given_output(*stack, k);
      if (given.is_same(computed[k])) continue;
      prepare_result(overload_, given, computed[k].sizes(), given.scalar_type(), device_of(device),
                     computed[k].strides());
      copy_into(given, computed[k]);
    }
  }
  overload_.finish(stack, computed);
}

void Decomposition::raise_half_done() const {
  TORCH_CHECK(false, "the decomposition of ", overload_.name(),
              " declined a call after it had written to an argument, which has a wrong value now; "
              "its body must decline before it writes. Until then use the placement 'host' for it");
}

// False if the call is declined. `wrote`: the memory of a value, if `watched`.
bool Decomposition::call_body(torch::jit::Stack& values, bool watched, bool& wrote) const {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const AssertScope asserts(assert_);
  if (!watched) {
    at::AutoDispatchBelowADInplaceOrView no_autograd;
    return body_->call(parameters_, returns_, values);
  }
  // The kernels of ADInplaceOrView count versions.
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  const c10::DispatchKeySet excluded = keys.excluded_ | c10::autograd_dispatch_keyset;
  c10::impl::ForceDispatchKeyGuard no_autograd(keys.included_,
                                               excluded.remove(c10::DispatchKey::ADInplaceOrView));
  const torch::jit::Stack given = values;
  const std::vector<int64_t> versions = versions_of(given);
  const bool done = body_->call(parameters_, returns_, values);
  wrote = versions_of(given) != versions;
  if (!done && wrote) raise_half_done();
  return done;
}

bool Decomposition::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  if (!serves(*stack, device)) return false;
  std::vector<at::Tensor> meta;
  if (meta_ != nullptr) meta = meta_->results(overload_, *stack);
  alert();
  std::vector<at::Tensor> computed;
  if (writes_) computed = make_results(*stack, meta, device);
  if (!can_deliver(*stack, computed)) return false;
  // Results allocated here may be written before the call is declined.
  bool watched = writes_arguments_ && body_->watched;
  for (size_t k = 0; k < computed.size(); ++k) {
    watched |= body_->watched && computed[k].is_same(overload_.given_output(*stack, k));
  }
  torch::jit::Stack values;
  for (const size_t index : indices_) {
    values.push_back(index < inputs_ ? overload_.read(*stack, static_cast<int>(index))
                                     : c10::IValue(computed.at(index - inputs_)));
  }
  bool wrote = false;
  if (!call_body(values, watched, wrote)) return false;
  if (values.size() == 1 && !values[0].isTensor()) {
    // An int, a bool or a list.
    stack->push_back(std::move(values[0]));
    return true;
  }
  for (const c10::IValue& value : values) computed.push_back(value.toTensor());
  if (!writes_ && !can_deliver(*stack, computed)) {
    if (wrote) raise_half_done();
    return false;
  }
  deliver(stack, std::move(computed), device);
  return true;
}

C10_REGISTER_CLASS(DefinitionKinds, decomposition, Decomposition)

}  // namespace outboard
