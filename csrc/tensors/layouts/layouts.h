// Nested and quantized tensors of the device: memory on the device, most operators on the host.
//
// PyTorch gives them dispatch keys of their own. A nested tensor is one buffer with the sizes,
// strides and offsets of its tensors on CPU; a quantized tensor is an integer tensor with a
// quantizer. (Jagged nested tensors are written in Python over dense ones and need nothing.)
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/quantized/Quantizer.h>
#include <torch/library.h>

namespace outboard {

// A nested tensor over the memory of `storage`, in the device or on the host, with the tensors and
// the dtype of `like`, another nested tensor.
at::Tensor nested_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like);
// The same for a quantized tensor; `like` is one, and its quantizer moves along.
at::Tensor quantized_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like);

// Registers products of compressed tensors whose kernel on the CPU cannot be used, where no other
// library was first. Once, at load. `compressed` is the library for them.
void register_reduced_products(torch::Library& compressed);

}  // namespace outboard
