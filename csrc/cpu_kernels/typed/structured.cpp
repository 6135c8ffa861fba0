#include "cpu_kernels/typed/structured.h"

#include <ATen/native/Resize.h>
#include <c10/core/TensorImpl.h>

#include "runtime/memory/caching/caching_allocator.h"

namespace outboard::cpu_kernels {

at::Tensor new_output(StreamState& stream, at::IntArrayRef sizes, at::IntArrayRef strides,
                      const at::TensorOptions& options) {
  const caffe2::TypeMeta dtype = options.dtype();
  const size_t bytes = strides.empty()
                           ? at::detail::computeStorageNbytesContiguous(sizes, dtype.itemsize())
                           : at::detail::computeStorageNbytes(sizes, strides, dtype.itemsize());
  CachingAllocator* allocator = caching_allocator();
  auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes,
                                                       allocator->allocate_on(stream, bytes),
                                                       allocator, /*resizable=*/true);
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), dtype);
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  if (!strides.empty()) {
    impl->set_sizes_and_strides(sizes, strides);
    return result;
  }
  // A new tensor has sizes (0,).
  if (sizes.size() != 1 || sizes[0] != 0) impl->set_sizes_contiguous(sizes);
  const auto format = options.memory_format_opt();
  if (format.has_value() && *format != at::MemoryFormat::Contiguous) {
    impl->empty_tensor_restride(*format);
  }
  return result;
}

void prepare_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                 const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == out.dtype(), "Expected out tensor to have dtype ", options.dtype(),
              ", but got ", out.dtype(), " instead");
  if (out.sizes() == sizes || !at::native::resize_output(out, sizes)) return;
  if (!strides.empty()) {
    out.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  } else if (options.memory_format_opt().has_value()) {
    out.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
  }
}

void check_in_place(const at::Tensor& self, at::IntArrayRef sizes,
                    const at::TensorOptions& options) {
  TORCH_CHECK(options.dtype() == self.dtype(), "Bad in-place call: input tensor dtype ",
              self.dtype(), " and output tensor dtype ", options.dtype(), " should match");
  TORCH_CHECK(sizes == self.sizes(), "Bad in-place call: input tensor size ", self.sizes(),
              " and output tensor size ", sizes, " should match");
}

}  // namespace outboard::cpu_kernels
