// Tensors among boxed arguments.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>

namespace outboard {

// Whether `value`, or an element of a list, is a defined tensor for which test(tensor) is true.
// Stops at the first.
template <class Test>
bool any_tensor(const c10::IValue& value, const Test& test) {
  if (value.isTensor()) return value.toTensor().defined() && test(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList()) return false;
  for (const c10::IValue& element : value.toListRef()) {
    if (any_tensor(element, test)) return true;
  }
  return false;
}

// Calls function(tensor) for each of these tensors.
template <class Function>
void for_each_tensor(const c10::IValue& value, const Function& function) {
  any_tensor(value, [&function](const at::Tensor& tensor) {
    function(tensor);
    return false;
  });
}

// Replaces each tensor of `value`, also in a list, by convert(tensor). A list is replaced as a
// whole, since others share it. Other values stay.
template <class Convert>
void convert_tensors(c10::IValue& value, const Convert& convert) {
  if (value.isTensor()) {
    at::Tensor tensor = std::move(value).toTensor();
    value = convert(std::move(tensor));
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    const c10::ArrayRef<c10::IValue> elements = value.toListRef();
    c10::List<c10::IValue> converted(value.toList().elementType());
    converted.reserve(elements.size());
    for (c10::IValue element : elements) {
      convert_tensors(element, convert);
      converted.push_back(std::move(element));
    }
    value = std::move(converted);
  }
}

}  // namespace outboard
