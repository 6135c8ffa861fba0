// Tensors among boxed arguments.
#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <utility>

namespace outboard {

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
