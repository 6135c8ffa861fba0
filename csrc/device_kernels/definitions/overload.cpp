#include "device_kernels/definitions/overload.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <c10/util/Exception.h>
#include <c10/util/overflows.h>

#include "dispatch/tensor_arguments.h"
#include "tensors/dense.h"

namespace outboard {

using at::ScalarType;

Overload::Overload(const c10::FunctionSchema& schema)
    : name_(c10::toString(schema.operator_name())),
      argument_count_(schema.arguments().size()),
      result_count_(schema.returns().size()),
      arguments_(schema.arguments()) {
  // Written arguments that are not returned, such as running means, are no results.
  const bool returns_new = !schema.returns().empty() && schema.returns()[0].alias_info() == nullptr;
  if (returns_new) return;
  const bool out = std::ranges::any_of(arguments_, &c10::Argument::is_out);
  for (int i = 0; i < static_cast<int>(arguments_.size()); ++i) {
    if ((!out || arguments_[i].is_out()) && writes(i)) written_.push_back(i);
  }
  if (written_.empty()) return;
  form_ = arguments_[written_[0]].is_out() ? Form::kOut : Form::kInPlace;
}

int Overload::find(const std::string& name) const noexcept {
  const auto found = std::ranges::find(arguments_, name, &c10::Argument::name);
  return found == arguments_.end() ? -1 : static_cast<int>(found - arguments_.begin());
}

int Overload::index(const std::string& name) const {
  const int found = find(name);
  TORCH_CHECK_VALUE(found >= 0, "it names the argument '", name, "', which ", name_,
                    " does not have");
  return found;
}

const at::Tensor& Overload::given_output(const torch::jit::Stack& stack, size_t result) const {
  static const at::Tensor* undefined = new at::Tensor;
  if (form_ == Form::kFunctional) return *undefined;
  return read(stack, written_.at(result)).toTensor();
}

void Overload::finish(torch::jit::Stack* stack, at::Tensor result) const {
  if (form_ == Form::kFunctional && result_count_ > 0) stack->emplace_back(std::move(result));
}

void Overload::finish(torch::jit::Stack* stack, c10::ArrayRef<at::Tensor> results) const {
  if (form_ != Form::kFunctional) return;
  for (size_t i = 0; i < result_count_; ++i) stack->emplace_back(results.at(i));
}

void Overload::take_arguments(torch::jit::Stack& stack, size_t base) const {
  const auto first = stack.begin() + static_cast<ptrdiff_t>(base);
  if (form_ == Form::kFunctional) {
    stack.erase(first, first + static_cast<ptrdiff_t>(argument_count_));
    return;
  }
  // Written arguments stand in the order of the results, each behind those before.
  for (size_t i = 0; i < written_count(); ++i) {
    std::swap(stack[base + i], stack[base + static_cast<size_t>(written_[i])]);
  }
  stack.resize(base + written_count());
}

at::Tensor prepare_result(const Overload& overload, const at::Tensor& given, at::IntArrayRef sizes,
                          at::ScalarType dtype, c10::Device device, at::OptionalIntArrayRef strides,
                          bool silently) {
  if (!given.defined()) {
    return strides.has_value() ? empty_strided_on(device.index(), sizes, *strides, dtype)
                               : empty_on(device.index(), sizes, dtype);
  }
  TORCH_CHECK(given.scalar_type() == dtype, "Expected out tensor to have dtype ", dtype,
              ", but got ", given.scalar_type(), " instead");
  TORCH_CHECK(given.device() == device, "Expected out tensor to have device ", device, ", but got ",
              given.device(), " instead");
  if (overload.form() == Overload::Form::kInPlace) {
    TORCH_CHECK(given.sizes() == sizes, "output with shape ", given.sizes(),
                " doesn't match the broadcast shape ", sizes);
    return given;
  }
  if (silently) {
    if (given.sizes() != sizes) given.resize_(sizes);
    return given;
  }
  if (at::native::resize_output(given, sizes) && strides.has_value()) {
    given.as_strided_(sizes, *strides);
  }
  return given;
}

bool is_dense_on(const at::Tensor& tensor, c10::DeviceIndex device) {
  return tensor.defined() && tensor.is_privateuseone() && tensor.device().index() == device &&
         tensor.layout() == at::kStrided;
}

bool may_overlap(const at::Tensor& a, const at::Tensor& b) {
  switch (at::get_overlap_status(a, b)) {
    case at::MemOverlapStatus::No:
      return false;
    case at::MemOverlapStatus::TooHard:
      return a.storage().is_alias_of(b.storage());
    default:
      return true;
  }
}

bool writes_apart(const Overload& overload, const torch::jit::Stack& stack,
                  c10::ArrayRef<int> may_be_result) {
  if (overload.form() == Overload::Form::kFunctional) return true;
  for (size_t k = 0; k < overload.result_count(); ++k) {
    const at::Tensor& given = overload.given_output(stack, k);
    if (at::has_internal_overlap(given) == at::MemOverlap::Yes) return false;
    for (size_t other = 0; other < k; ++other) {
      if (may_overlap(given, overload.given_output(stack, other))) return false;
    }
    const int same = k < may_be_result.size() ? may_be_result[k] : -1;
    for (int i = 0; i < static_cast<int>(overload.argument_count()); ++i) {
      if (overload.writes(i)) continue;
      const bool overlaps = any_tensor(overload.read(stack, i), [&](const at::Tensor& read) {
        return !(i == same && read.is_same(given)) && may_overlap(given, read);
      });
      if (overlaps) return false;
    }
  }
  return true;
}

namespace {

bool overflows(const at::Scalar& scalar, ScalarType dtype) {
  if (scalar.isBoolean() || dtype == ScalarType::Bool) return false;
  const auto exceeds = [&]<class T>(T) {
    if (scalar.isComplex()) return c10::overflows<T>(scalar.toComplexDouble());
    if (scalar.isFloatingPoint()) return c10::overflows<T>(scalar.toDouble());
    return c10::overflows<T>(scalar.toLong());
  };
  switch (dtype) {
#define OUTBOARD_CASE(type, name) \
  case ScalarType::name:          \
    return exceeds(type{});
    AT_FORALL_INT_TYPES(OUTBOARD_CASE)
    OUTBOARD_CASE(c10::Half, Half)
    OUTBOARD_CASE(c10::BFloat16, BFloat16)
    OUTBOARD_CASE(float, Float)
    OUTBOARD_CASE(c10::complex<float>, ComplexFloat)
#undef OUTBOARD_CASE
    default:
      return false;
  }
}

}  // namespace

bool takes_number(ScalarType dtype, const at::Scalar& number, bool strict) {
  if (number.isComplex() && !at::isComplexType(dtype)) return false;
  if (strict && number.isBoolean() && dtype != ScalarType::Bool) return false;
  if (strict && number.isFloatingPoint() && at::isIntegralType(dtype, /*includeBool=*/true)) {
    return false;
  }
  return !overflows(number, dtype);
}

std::vector<int> number_arguments(const Overload& overload) {
  std::vector<int> numbers;
  for (int i = 0; i < static_cast<int>(overload.argument_count()); ++i) {
    c10::TypePtr type = overload.argument(i).type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::NumberType) numbers.push_back(i);
  }
  return numbers;
}

bool takes_numbers(ScalarType dtype, const std::vector<int>& arguments, const Overload& overload,
                   const torch::jit::Stack& stack) {
  for (const int argument : arguments) {
    const c10::IValue& value = overload.read(stack, argument);
    if (value.isScalar() && !takes_number(dtype, value.toScalar())) return false;
  }
  return true;
}

}  // namespace outboard
