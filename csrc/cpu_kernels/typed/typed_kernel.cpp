#include "cpu_kernels/typed/typed_kernel.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <c10/core/DynamicCast.h>
#include <c10/core/TensorImpl.h>

#include "cpu_kernels/typed/structured.h"
#include "runtime/memory/caching/caching_allocator.h"

namespace outboard::cpu_kernels {

namespace {

// Order of the categories of type promotion.
int category(at::ScalarType dtype) {
  if (c10::isComplexType(dtype)) return 3;
  if (c10::isFloatingType(dtype)) return 2;
  if (c10::isIntegralType(dtype, /*includeBool=*/false)) return 1;
  return 0;
}

// Without narrow integers, which have separate rules for numbers that do not fit.
bool keeps_numbers(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kDouble || dtype == at::kLong ||
         dtype == at::kComplexFloat || dtype == at::kComplexDouble;
}

template <class T>
at::Tensor number_tensor(at::ScalarType dtype, T value) {
  at::Tensor result = at::detail::empty_cpu({}, dtype);
  c10::cast_and_store<T>(dtype, result.mutable_data_ptr(), value);
  return result;
}

}  // namespace

at::Tensor scalar_as(c10::TensorImpl* scalar, at::ScalarType dtype) {
  const at::ScalarType own = c10::typeMetaToScalarType(scalar->dtype());
  if (!keeps_numbers(dtype)) return {};
  if (scalar->is_conj() || scalar->is_neg()) return {};
  if (own == dtype) {
    return at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(scalar));
  }
  if (category(own) > category(dtype)) return {};
  // A scalar without the wrapped bit takes part in promotion among zero-dimensional tensors.
  if (!scalar->is_wrapped_number()) return {};
  const void* data = scalar->data();
  switch (own) {
    case at::ScalarType::Double:
      return number_tensor(dtype, *static_cast<const double*>(data));
    case at::ScalarType::Float:
      return number_tensor(dtype, *static_cast<const float*>(data));
    case at::ScalarType::Long:
      return number_tensor(dtype, *static_cast<const int64_t*>(data));
    case at::ScalarType::ComplexDouble:
      return number_tensor(dtype, *static_cast<const c10::complex<double>*>(data));
    default:
      // Includes bool, which some operators reject.
      return {};
  }
}

at::Tensor scalar_as(const at::Scalar& scalar, at::ScalarType dtype) {
  if (!keeps_numbers(dtype) || scalar.isSymbolic()) return {};
  if (category(scalar.type()) > category(dtype)) return {};
  if (scalar.isComplex()) return number_tensor(dtype, scalar.toComplexDouble());
  if (scalar.isFloatingPoint()) return number_tensor(dtype, scalar.toDouble());
  if (scalar.isBoolean()) return number_tensor(dtype, scalar.toBool());
  // Unsigned numbers beyond int64 use the router.
  if (scalar.type() != at::ScalarType::Long) return {};
  return number_tensor(dtype, scalar.toLong());
}

// ---- Outputs of structured operators

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
