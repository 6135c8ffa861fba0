// Tensors without storage: a vendor's packed numbers, 4 bits each, in memory unknown to PyTorch.
#include <ATen/ATen.h>
#include <ATen/OpaqueTensorImpl.h>
#include <ATen/ops/_to_copy_native.h>
#include <ATen/ops/clone_native.h>
#include <torch/library.h>

namespace {

// Two numbers in a byte, and their factor. A vendor would store a handle of the device.
struct Packed {
  at::Tensor bytes;  // on the device, uint8
  double scale;
};

class PackedTensor final : public at::OpaqueTensorImpl<Packed> {
 public:
  PackedTensor(Packed packed, c10::Device device, c10::IntArrayRef sizes)
      : at::OpaqueTensorImpl<Packed>(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     caffe2::TypeMeta::Make<float>(), device, std::move(packed),
                                     sizes) {
    set_custom_layout(true);
  }
  // PyTorch's name for memory in an unknown format. Such tensors are printed by to_dense().
  c10::Layout layout_custom() const override { return at::kMkldnn; }

  // For detach(), Parameter and autograd: a second tensor over the same handle, of this class.
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version, bool allow_metadata_change) const override {
    auto copy = c10::make_intrusive<PackedTensor>(opaque_handle(), device(), sizes());
    copy_tensor_metadata(this, copy.get(), version, allow_metadata_change);
    copy->set_custom_layout(true);
    return copy;
  }
  c10::intrusive_ptr<c10::TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version, bool allow_metadata_change) const override {
    return shallow_copy_and_detach(version, allow_metadata_change);
  }
};

const PackedTensor* packed_of(const at::Tensor& tensor) {
  return dynamic_cast<const PackedTensor*>(tensor.unsafeGetTensorImpl());
}

at::Tensor pack(const at::Tensor& dense) {
  TORCH_CHECK(dense.is_privateuseone() && dense.scalar_type() == at::kFloat,
              "pack takes a float32 tensor of the device, not ", dense.scalar_type(), " on ",
              dense.device());
  const at::Tensor flat = dense.contiguous().view(-1);
  const double scale = flat.numel() == 0 ? 1 : flat.abs().max().item<double>() / 7;
  at::Tensor codes = at::round(flat / (scale == 0 ? 1 : scale)).add_(8).to(at::kByte);
  if (codes.numel() % 2 != 0) codes = at::constant_pad_nd(codes, {0, 1});
  const at::Tensor pairs = codes.view({-1, 2});
  return at::detail::make_tensor<PackedTensor>(
      Packed{pairs.select(1, 0) * 16 + pairs.select(1, 1), scale}, dense.device(), dense.sizes());
}

at::Tensor unpack(const at::Tensor& tensor) {
  const PackedTensor* packed = packed_of(tensor);
  TORCH_CHECK(packed != nullptr, "a packed tensor was expected, not a dense one");
  const auto& [bytes, scale] = packed->opaque_handle();
  const at::Tensor codes =
      at::stack({at::bitwise_right_shift(bytes, 4), at::bitwise_and(bytes, 15)}, 1).view(-1);
  const at::Tensor numbers = (codes.to(at::kFloat) - 8) * scale;
  return numbers.narrow(0, 0, tensor.numel()).view(tensor.sizes()).clone();
}

bool is_packed(const at::Tensor& tensor) { return packed_of(tensor) != nullptr; }

// ---- Operators that PyTorch calls for such tensors. Dense ones are passed on.

at::Tensor to_dense(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                    std::optional<bool>) {
  const at::Tensor dense = unpack(self);
  return dtype.has_value() ? dense.to(*dtype) : dense;
}

// .to(), .cpu(), .float(), torch.save
at::Tensor to_copy(const at::Tensor& self, std::optional<at::ScalarType> dtype,
                   std::optional<at::Layout> layout, std::optional<at::Device> device,
                   std::optional<bool> pin_memory, bool non_blocking,
                   std::optional<at::MemoryFormat> memory_format) {
  if (!is_packed(self)) {
    return at::native::_to_copy(self, dtype, layout, device, pin_memory, non_blocking,
                                memory_format);
  }
  return at::native::_to_copy(unpack(self), dtype, at::kStrided, device, pin_memory, non_blocking,
                              memory_format);
}

// copy.deepcopy
at::Tensor clone(const at::Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  if (!is_packed(self)) return at::native::clone(self, memory_format);
  const auto& [bytes, scale] = packed_of(self)->opaque_handle();
  return at::detail::make_tensor<PackedTensor>(Packed{bytes.clone(), scale}, self.device(),
                                               self.sizes());
}

TORCH_LIBRARY(packed_example, library) {
  library.def("pack(Tensor dense) -> Tensor", &pack);
  library.def("is_packed(Tensor tensor) -> bool", &is_packed);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_to_dense", &to_dense);
  library.impl("_to_copy", &to_copy);
  library.impl("clone", &clone);
}

// When a tensor with this layout moves to the CPU, PyTorch uses this key.
TORCH_LIBRARY_IMPL(aten, MkldnnCPU, library) { library.impl("_to_copy", &to_copy); }

}  // namespace
