#include <ATen/ops/_empty_affine_quantized_native.h>
#include <ATen/ops/_empty_per_channel_affine_quantized_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty_quantized_native.h>
#include <ATen/ops/q_scale_native.h>
#include <ATen/ops/q_zero_point_native.h>
#include <ATen/ops/qscheme_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/quantized/QTensorImpl.h>
#include <torch/library.h>

#include <utility>

#include "dispatch/registration.h"
#include "tensors/layouts.h"

namespace outboard {
namespace {

constexpr c10::DispatchKey kQuantizedKey = c10::DispatchKey::QuantizedPrivateUse1;

at::PerChannelAffineQuantizer& per_channel(const at::Tensor& tensor) {
  auto* found =
      dynamic_cast<at::PerChannelAffineQuantizer*>(at::get_qtensorimpl(tensor)->quantizer().get());
  TORCH_CHECK(found != nullptr,
              "scales, zero points and axis per channel were asked of a tensor of ",
              tensor.device(), " that is not quantized per channel; call q_scale()");
  return *found;
}

at::Tensor scales(const at::Tensor& self) { return per_channel(self).scales(); }
at::Tensor zero_points(const at::Tensor& self) { return per_channel(self).zero_points(); }
int64_t axis(const at::Tensor& self) { return per_channel(self).axis(); }

// The quantizer of a tensor, with its tensors per channel on `device`.
at::QuantizerPtr quantizer_on(c10::Device device, const at::Tensor& tensor) {
  at::QuantizerPtr quantizer = at::get_qtensorimpl(tensor)->quantizer();
  auto* channels = dynamic_cast<at::PerChannelAffineQuantizer*>(quantizer.get());
  if (channels == nullptr || channels->scales().device() == device) return quantizer;
  return at::make_per_channel_affine_quantizer(channels->scales().to(device),
                                               channels->zero_points().to(device), channels->axis(),
                                               tensor.scalar_type());
}

// The integers of a quantized tensor, in the same memory.
at::Tensor integers_of(const at::Tensor& tensor) {
  const at::ScalarType dtype = at::toUnderlying(tensor.scalar_type());
  const bool packed =
      tensor.scalar_type() == at::kQUInt4x2 || tensor.scalar_type() == at::kQUInt2x4;
  TORCH_CHECK_NOT_IMPLEMENTED(!packed || tensor.is_contiguous(), "a tensor of ",
                              tensor.scalar_type(), " on ", tensor.device(),
                              " is copied only if it is contiguous; call .contiguous() on the CPU");
  const c10::DispatchKey key =
      tensor.is_privateuseone() ? c10::DispatchKey::PrivateUse1 : c10::DispatchKey::CPU;
  at::Tensor integers = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(tensor.storage()), c10::DispatchKeySet(key), c10::scalarTypeToTypeMeta(dtype));
  c10::TensorImpl* impl = integers.unsafeGetTensorImpl();
  if (packed) {
    impl->set_sizes_contiguous({static_cast<int64_t>(tensor.storage().nbytes())});
  } else {
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  }
  return integers;
}

// PyTorch's rule: the destination is quantized; from a quantized source it takes the quantizer.
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  TORCH_CHECK(dst.is_quantized(), "a quantized tensor cannot be copied to one of dtype ",
              dst.scalar_type(), " on ", dst.device(), "; call dequantize() first");
  if (!self.is_quantized()) {
    const at::Tensor host = self.to(at::kCPU, at::kFloat);
    const at::Tensor quantized = quantizer_on(at::kCPU, dst)->quantize(host);
    integers_of(dst).copy_(integers_of(quantized), non_blocking);
    return dst;
  }
  TORCH_CHECK(self.scalar_type() == dst.scalar_type() && self.sizes() == dst.sizes(),
              "a quantized tensor of ", self.scalar_type(), " and sizes ", self.sizes(),
              " cannot be copied to one of ", dst.scalar_type(), " and ", dst.sizes(), " on ",
              dst.device(), "; dtype and sizes must be the same");
  integers_of(dst).copy_(integers_of(self), non_blocking);
  at::get_qtensorimpl(dst)->set_quantizer_(quantizer_on(dst.device(), self));
  return dst;
}

}  // namespace

at::Tensor quantized_over(c10::Storage storage, c10::DispatchKeySet keys, const at::Tensor& like) {
  const c10::Device device = storage.device();
  at::Tensor tensor = at::detail::make_tensor<at::QTensorImpl>(
      std::move(storage), keys, like.dtype(), quantizer_on(device, like));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides(),
                                                      like.storage_offset());
  return tensor;
}

void register_quantized_operators() {
  auto* library =
      new torch::Library(torch::Library::IMPL, "aten", kQuantizedKey, __FILE__, __LINE__);
  YieldingLibrary kernels(*library, kQuantizedKey);
  kernels.impl("_copy_from", TORCH_FN(copy_from));
  kernels.impl("as_strided", TORCH_FN(at::native::as_strided_qtensorimpl));
  kernels.impl("view", TORCH_FN(at::native::view));
  kernels.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  kernels.impl("unfold", TORCH_FN(at::native::unfold));
  kernels.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_quantized_));
  kernels.impl("empty_quantized", TORCH_FN(at::native::empty_quantized));
  kernels.impl("_empty_affine_quantized", TORCH_FN(at::native::empty_affine_quantized));
  kernels.impl("_empty_per_channel_affine_quantized",
               TORCH_FN(at::native::empty_per_channel_affine_quantized));
  kernels.impl("q_scale", TORCH_FN(at::native::q_scale_quant));
  kernels.impl("q_zero_point", TORCH_FN(at::native::q_zero_point_quant));
  kernels.impl("qscheme", TORCH_FN(at::native::qscheme_quant));
  kernels.impl("q_per_channel_scales", TORCH_FN(scales));
  kernels.impl("q_per_channel_zero_points", TORCH_FN(zero_points));
  kernels.impl("q_per_channel_axis", TORCH_FN(axis));
  route_operators_like(c10::DispatchKey::QuantizedCPU, kQuantizedKey, *library);
  register_layout_fallback(kQuantizedKey);
}

}  // namespace outboard
