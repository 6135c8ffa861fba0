#include "transfer/staging.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>

#include "runtime/memory/pinned_memory.h"
#include "tensors/span.h"
#include "transfer/copy_plan.h"
#include "transfer/transfer.h"

namespace outboard {

namespace {

Place device_place(const at::Tensor& tensor, bool write) {
  const void* data = write ? tensor.mutable_data_ptr() : tensor.const_data_ptr();
  return {tensor.device().index(), reinterpret_cast<uint64_t>(data)};
}

at::Tensor with_bits_of(at::Tensor host, const at::Tensor& tensor) {
  host._set_conj(tensor.is_conj());
  host._set_neg(tensor.is_neg());
  return host;
}

// A CPU tensor with the layout of `tensor`, which has no gaps.
at::Tensor empty_host_like(const at::Tensor& tensor) {
  return at::detail::empty_strided_cpu(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

// A CPU tensor over memory that looks like everything from the first to the last element.
at::Tensor empty_host_span(const at::Tensor& tensor) {
  const at::Tensor buffer = at::detail::empty_cpu({span_elements(tensor)}, tensor.scalar_type());
  return at::native::as_strided_tensorimpl(buffer, tensor.sizes(), tensor.strides(), 0);
}

}  // namespace

at::Tensor read_to_host(const at::Tensor& source, StreamState& stream) {
  const int64_t itemsize = source.itemsize();
  const Place from = device_place(source, false);
  const int64_t span = span_bytes(source);
  const bool dense = source.is_non_overlapping_and_dense();
  if (!dense && span > 2 * source.numel() * itemsize) {
    const at::Tensor packed = at::detail::empty_cpu(source.sizes(), source.scalar_type());
    const CopyPlan plan = plan_copy(source.sizes(), packed.strides(), source.strides(), itemsize);
    if (plan.suits_driver()) {
      HostMemoryInUse in_use(stream, packed);
      enqueue_copy(stream, Place::on_host(packed.data_ptr()), from, plan);
      in_use.wait();
      return with_bits_of(packed, source);
    }
  }
  const at::Tensor host = dense ? empty_host_like(source) : empty_host_span(source);
  HostMemoryInUse in_use(stream, host);
  enqueue_copy(stream, Place::on_host(host.data_ptr()), from, span);
  in_use.wait();
  return with_bits_of(host, source);
}

void write_from_host(const at::Tensor& destination, const at::Tensor& source, StreamState& stream) {
  const int64_t itemsize = destination.itemsize();
  const Place to = device_place(destination, true);
  const bool dense = destination.is_non_overlapping_and_dense();
  at::Tensor host =
      dense ? empty_host_like(destination)
            : at::Tensor(at::detail::empty_cpu(destination.sizes(), destination.scalar_type()));
  const CopyPlan plan =
      plan_copy(destination.sizes(), destination.strides(), host.strides(), itemsize);
  if (plan.suits_driver()) {
    with_bits_of(host, destination);
    // What the stream still has to do may be to fill it.
    if (is_pinned(source.const_data_ptr())) synchronize_stream(stream);
    at::native::copy_(host, source);
    HostMemoryInUse in_use(stream, host);
    enqueue_copy(stream, to, Place::on_host(host.data_ptr()), plan);
    in_use.wait();
    return;
  }
  const int64_t span = span_bytes(destination);
  host = with_bits_of(empty_host_span(destination), destination);
  HostMemoryInUse in_use(stream, host);
  enqueue_copy(stream, Place::on_host(host.data_ptr()), to, span);
  synchronize_stream(stream);
  at::native::copy_(host, source);
  enqueue_copy(stream, to, Place::on_host(host.data_ptr()), span);
  in_use.wait();
}

}  // namespace outboard
