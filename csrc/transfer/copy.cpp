#include "transfer/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/copy_native.h>
#include <ATen/ops/fill_native.h>
#include <c10/util/DimVector.h>
#include <torch/library.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "dispatch/call_routed.h"
#include "dispatch/placement.h"
#include "dispatch/registration.h"
#include "dispatch/report.h"
#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_table.h"
#include "runtime/memory/caching/caching_allocator.h"
#include "runtime/memory/pinned_memory.h"
#include "runtime/programs/program.h"
#include "runtime/recording/recording.h"
#include "runtime/streams/stream.h"
#include "runtime/streams/wait.h"
#include "tensors/dense.h"
#include "tensors/host_view.h"

namespace outboard {
namespace {

std::atomic<DeviceCopy> g_device_copy{nullptr};

Operator& copy_entry() {
  static Operator& entry = router_entry("aten::_copy_from");
  return entry;
}

// Whether kernels copy within `device`: code runs there, and device kernels run its operators.
bool device_copies(c10::DeviceIndex device) {
  if (g_device_copy.load(std::memory_order_relaxed) == nullptr || !runs_code(device)) return false;
  ensure_device_kernels();
  return runs_on_device(device);
}

// Enqueues the copy, or declines.
bool copy_on_device(const at::Tensor& destination, const at::Tensor& source) {
  ReportedCall reported(copy_entry(), source.scalar_type(), Placement::kDevice);
  if (g_device_copy.load(std::memory_order_relaxed)(destination, source)) return true;
  reported.cancel();
  return false;
}

uint64_t address_to_write(const at::Tensor& tensor) {
  return reinterpret_cast<uint64_t>(tensor.mutable_data_ptr());
}
uint64_t address_to_read(const at::Tensor& tensor) {
  return reinterpret_cast<uint64_t>(tensor.const_data_ptr());
}

// ---- Devices whose memory the host cannot touch: read into and written from host memory

at::Tensor with_bits_of(at::Tensor made, const at::Tensor& tensor) {
  made._set_conj(tensor.is_conj());
  made._set_neg(tensor.is_neg());
  return made;
}

// A CPU tensor with the layout of `tensor`, gaps included.
at::Tensor empty_host_like(const at::Tensor& tensor) {
  return at::detail::empty_strided_cpu(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

// The content of `source`, with at least one element, in a CPU tensor of its sizes, dtype and conj
// and neg bits; strides may differ. Waits for `stream`, a stream of the tensor's device.
at::Tensor read_to_host(const at::Tensor& source, StreamState& stream) {
  const int64_t itemsize = source.itemsize();
  const Location from{stream.device, address_to_read(source)};
  const int64_t span = span_bytes(source);
  const bool dense = source.is_non_overlapping_and_dense();
  if (!dense && span > 2 * source.numel() * itemsize) {
    const at::Tensor packed = at::detail::empty_cpu(source.sizes(), source.scalar_type());
    const CopyPlan plan = plan_copy(source.sizes(), packed.strides(), source.strides(), itemsize);
    if (plan.suits_driver()) {
      HostMemoryInUse in_use(stream, packed);
      enqueue_copy(stream, Location::on_host(packed.data_ptr()), from, plan);
      in_use.wait();
      return with_bits_of(packed, source);
    }
  }
  const at::Tensor host = empty_host_like(source);
  HostMemoryInUse in_use(stream, host);
  enqueue_copy(stream, Location::on_host(host.data_ptr()), from, span);
  in_use.wait();
  return with_bits_of(host, source);
}

// Writes the CPU tensor `source`, broadcast and converted, into `destination`. Bytes between the
// elements of `destination` keep their values. Where a list of copies would be too long for the
// driver, they are read and written back, so another stream must not write them meanwhile. Waits
// for `stream`, a stream of the destination's device.
void write_from_host(const at::Tensor& destination, const at::Tensor& source, StreamState& stream) {
  const int64_t itemsize = destination.itemsize();
  const Location to{stream.device, address_to_write(destination)};
  const bool dense = destination.is_non_overlapping_and_dense();
  at::Tensor host =
      dense ? empty_host_like(destination)
            : at::Tensor(at::detail::empty_cpu(destination.sizes(), destination.scalar_type()));
  const CopyPlan plan =
      plan_copy(destination.sizes(), destination.strides(), host.strides(), itemsize);
  if (plan.suits_driver()) {
    with_bits_of(host, destination);
    // Pending work of the stream may write pinned memory.
    if (is_pinned(source.const_data_ptr())) synchronize_stream(stream);
    at::native::copy_(host, source);
    HostMemoryInUse in_use(stream, host);
    enqueue_copy(stream, to, Location::on_host(host.data_ptr()), plan);
    in_use.wait();
    return;
  }
  const int64_t span = span_bytes(destination);
  host = with_bits_of(empty_host_like(destination), destination);
  HostMemoryInUse in_use(stream, host);
  enqueue_copy(stream, Location::on_host(host.data_ptr()), to, span);
  synchronize_stream(stream);
  at::native::copy_(host, source);
  enqueue_copy(stream, to, Location::on_host(host.data_ptr()), span);
  in_use.wait();
}

// ---- All copies

// Below this size, a driver's copy costs more than a copy by the host.
constexpr size_t kSmallCopy = 64 << 10;
// Up to this, one thread copies as fast as several.
constexpr int64_t kSingleThreadCopy = 256 << 10;

c10::DeviceIndex device_or_host(const at::Tensor& tensor) {
  if (tensor.is_cpu()) return kHost;
  TORCH_CHECK(tensor.is_privateuseone(), "copies go between CPU and ", c10::DeviceType::PrivateUse1,
              " tensors, and a tensor on ", tensor.device(),
              " was given; copy it to the CPU first");
  return tensor.device().index();
}

void check_shapes(const at::Tensor& destination, const at::Tensor& source) {
  if (destination.sizes().equals(source.sizes())) return;
  const c10::DimVector shape = at::infer_size_dimvector(destination.sizes(), source.sizes());
  TORCH_CHECK(destination.sizes().equals(shape), "output with shape ", destination.sizes(),
              " doesn't match the broadcast shape ", at::IntArrayRef(shape));
}

bool same_view(const at::Tensor& destination, const at::Tensor& source) {
  return destination.is_alias_of(source) &&
         destination.storage_offset() == source.storage_offset() &&
         destination.sizes().equals(source.sizes()) &&
         destination.strides().equals(source.strides()) &&
         destination.scalar_type() == source.scalar_type() &&
         destination.is_conj() == source.is_conj() && destination.is_neg() == source.is_neg();
}

// The plan of a copy of bytes, without conversion, conjugation and negation; else nullopt.
std::optional<CopyPlan> plan_bytes(const at::Tensor& destination, const at::Tensor& source) {
  if (destination.scalar_type() != source.scalar_type() ||
      destination.is_conj() != source.is_conj() || destination.is_neg() != source.is_neg()) {
    return std::nullopt;
  }
  if (destination.sizes().equals(source.sizes())) {
    return plan_copy(destination.sizes(), destination.strides(), source.strides(),
                     destination.itemsize());
  }
  const auto broadcast =
      at::inferExpandGeometry_dimvector(source.sizes(), source.strides(), destination.sizes());
  return plan_copy(destination.sizes(), destination.strides(), broadcast.strides,
                   destination.itemsize());
}

bool spans_intersect(const at::Tensor& a, const at::Tensor& b) {
  if (!a.is_alias_of(b)) return false;
  const uint64_t a_begin = address_to_read(a);
  const uint64_t b_begin = address_to_read(b);
  return a_begin < b_begin + span_bytes(b) && b_begin < a_begin + span_bytes(a);
}

// Whether the device copies by the host's processors, so the driver is not faster.
bool is_host_processor(c10::DeviceIndex device) {
  return device_properties(device).kind == OB_DEVICE_CPU;
}

// Whether memory may be freed while streams use it, because the allocator knows the streams. False
// for memory that was adopted from host kernels.
bool stream_ordered(const at::Tensor& tensor) {
  return tensor.is_cpu() || !adopts_host_memory(tensor.device().index()) ||
         caching_allocator()->device_of_pointer(tensor.storage().data()) >= 0;
}

// Whether the host should copy instead of the driver, on a device with shared memory. `transfer`:
// from or to the host.
bool host_copies_best(const StreamState& stream, size_t bytes, bool asynchronous, bool transfer) {
  if (asynchronous && !stream.idle()) return false;  // would wait for pending work
  if (bytes <= kSmallCopy) return true;
  if (asynchronous && transfer) return false;  // would block the caller
  return is_host_processor(stream.device);
}

// Source and destination are host-accessible, and no stream uses them.
void copy_on_host(const at::Tensor& destination, const at::Tensor& source,
                  const std::optional<CopyPlan>& plan) {
  if (plan && plan->dense() && plan->row_bytes <= kSingleThreadCopy) {
    std::memmove(destination.mutable_data_ptr(), source.const_data_ptr(), plan->row_bytes);
    return;
  }
  at::Tensor target = host_tensor(destination);
  at::native::copy_(target, host_tensor(source, Access::kRead));
}

// A copy on one device, or between it and the host.
void copy_with_host_or_itself(const at::Tensor& destination, const at::Tensor& source,
                              c10::DeviceIndex device, bool non_blocking) {
  StreamState& stream = current_stream_state(device);
  const std::optional<CopyPlan> plan = plan_bytes(destination, source);
  const at::Tensor* host =
      destination.is_cpu() ? &destination : (source.is_cpu() ? &source : nullptr);
  const bool overlapping = host == nullptr && spans_intersect(destination, source);
  const bool suits_driver = plan && plan->suits_driver() && !overlapping;

  if (host == nullptr && stream_ordered(destination) && stream_ordered(source) &&
      device_copies(device)) {
    const uint64_t to = address_to_write(destination);
    if (plan && plan->dense() && !overlapping) {
      enqueue_copy(stream, {device, to}, {device, address_to_read(source)}, *plan);
      return;
    }
    if (copy_on_device(destination, source)) return;
  }

  if (shares_host_memory(device)) {
    const bool asynchronous =
        suits_driver && stream_ordered(destination) && stream_ordered(source) &&
        (host == nullptr || (non_blocking && is_pinned(host->storage().data())));
    const bool driver_may = asynchronous || (suits_driver && host != nullptr);
    if (!driver_may || host_copies_best(stream, destination.nbytes(), asynchronous, host)) {
      synchronize_stream(stream);
      if (host == &destination) raise_deferred();
      copy_on_host(destination, source, plan);
      return;
    }
  }

  if (suits_driver) {
    const Location to{device_or_host(destination), address_to_write(destination)};
    const Location from{device_or_host(source), address_to_read(source)};
    if (host == nullptr) {
      enqueue_copy(stream, to, from, *plan);
      return;
    }
    HostMemoryInUse in_use(stream, *host, non_blocking && is_pinned(host->storage().data()));
    enqueue_copy(stream, to, from, *plan);
    if (non_blocking && keep_pinned_until_copied(host->storage(), stream)) {
      in_use.release();
    } else {
      in_use.wait();
    }
    return;
  }

  if (destination.is_cpu()) {
    at::Tensor target = destination;
    at::native::copy_(target, read_to_host(source, stream));
  } else {
    write_from_host(destination, source.is_cpu() ? source : read_to_host(source, stream), stream);
  }
}

void copy_between_devices(const at::Tensor& destination, const at::Tensor& source) {
  const c10::DeviceIndex to = destination.device().index();
  const c10::DeviceIndex from = source.device().index();
  StreamState& source_stream = current_stream_state(from);
  StreamState& destination_stream = current_stream_state(to);
  const std::optional<CopyPlan> plan = plan_bytes(destination, source);
  const bool on_bus = plan && plan->suits_driver();

  if (shares_host_memory(to) && shares_host_memory(from)) {
    const bool may_leave_pending = on_bus && stream_ordered(destination) && stream_ordered(source);
    const bool idle = source_stream.idle() && destination_stream.idle();
    const bool cheap =
        destination.nbytes() <= kSmallCopy || (is_host_processor(to) && is_host_processor(from));
    if (!may_leave_pending || (idle && cheap)) {
      synchronize_stream(source_stream);
      synchronize_stream(destination_stream);
      copy_on_host(destination, source, plan);
      return;
    }
  }

  if (on_bus) {
    // On the source's stream, in the order of a copy that is enqueued on both.
    const c10::Stream here = source_stream.stream();
    const c10::Stream there = destination_stream.stream();
    if (!destination_stream.idle()) enqueue_wait(here, there);
    enqueue_copy(source_stream, {to, address_to_write(destination)},
                 {from, address_to_read(source)}, *plan);
    enqueue_wait(there, here);
    return;
  }

  // Packed on the source's device, copied, then broadcast, converted and scattered on the
  // destination's.
  at::Tensor packed = source;
  if (!source.is_non_overlapping_and_dense()) {
    packed = with_bits_of(empty_on(from, source.sizes(), source.scalar_type()), source);
    copy_with_host_or_itself(packed, source, from, true);
  }
  const at::Tensor landed = with_bits_of(
      empty_strided_on(to, packed.sizes(), packed.strides(), packed.scalar_type()), source);
  copy_between_devices(landed, packed);
  copy_with_host_or_itself(destination, landed, to, true);
}

}  // namespace

void set_device_copy(DeviceCopy function) { g_device_copy.store(function); }

void copy_into(const at::Tensor& destination, const at::Tensor& source, bool non_blocking) {
  check_fork();
  const c10::DeviceIndex to = device_or_host(destination);
  const c10::DeviceIndex from = device_or_host(source);
  if (to != kHost) check_has_storage(destination);
  if (from != kHost) check_has_storage(source);
  check_shapes(destination, source);
  if (same_view(destination, source)) return;
  at::assert_no_internal_overlap(destination);
  at::assert_no_partial_overlap(destination, source);
  if (destination.numel() == 0) return;

  if (to == kHost && from == kHost) {
    at::Tensor target = destination;
    at::native::copy_(target, source, non_blocking);
  } else if (to == from || to == kHost || from == kHost) {
    copy_with_host_or_itself(destination, source, to == kHost ? from : to, non_blocking);
  } else {
    copy_between_devices(destination, source);
  }
}

namespace {

// ---- Operators

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  if (dst.is_cpu() == self.is_cpu()) {
    copy_into(dst, self, non_blocking);
    return dst;
  }
  ReportedCall reported(copy_entry(), self.scalar_type(), Placement::kDevice);
  copy_into(dst, self, non_blocking);
  reported.add_copied_bytes(dst.nbytes());
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (!dst.sizes().equals(self.sizes())) dst.resize_(self.sizes());
  copy_into(dst, self);
  return dst;
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  check_fork();
  check_has_storage(self);
  const RequestedWait wait("item");
  const c10::DeviceIndex device = self.device().index();
  StreamState& stream = current_stream_state(device);
  if (shares_host_memory(device)) {
    synchronize_stream(stream);
    raise_deferred();
    return at::native::_local_scalar_dense_cpu(host_tensor(self, Access::kRead));
  }
  at::Tensor value = at::detail::empty_cpu({}, self.scalar_type());
  HostMemoryInUse in_use(stream, value);
  enqueue_copy(stream, Location::on_host(value.data_ptr()), {device, address_to_read(self)},
               static_cast<int64_t>(self.itemsize()));
  in_use.wait();
  return at::native::_local_scalar_dense_cpu(value);
}

// These operators handle conj and neg bits. PyTorch would materialize such tensors by clone, which
// copies again, and would record a stream on the copy.
void fall_through(torch::Library& library) {
  for (const char* name : {"_copy_from", "_copy_from_and_resize", "record_stream"}) {
    library.impl(name, torch::CppFunction::makeFallthrough());
  }
}

TORCH_LIBRARY_IMPL(aten, Conjugate, library) { fall_through(library); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { fall_through(library); }

// ---- Fills

// Enqueues a driver fill of `tensor` on the device's current stream. Returns false, with nothing
// done, where a CPU kernel fills: the device shares memory with the host, or the tensor has gaps.
bool fill_dense(const at::Tensor& tensor, const at::Scalar& value) {
  check_fork();
  const c10::DeviceIndex device = tensor.device().index();
  if (shares_host_memory(device) || !tensor.is_non_overlapping_and_dense()) return false;
  at::Tensor pattern = at::detail::empty_cpu({}, tensor.scalar_type());
  at::native::fill_(pattern, value);
  if (tensor.numel() == 0) return true;
  StreamState& stream = current_stream_state(device);
  const uint64_t bytes = static_cast<uint64_t>(tensor.numel()) * tensor.itemsize();
  RecordedWork record(stream, ActivityKind::kFill, "fill", "Memset", bytes);
  OB_CALL(fill, stream.queue, address_to_write(tensor), pattern.const_data_ptr(),
          static_cast<uint32_t>(tensor.itemsize()), bytes);
  stream.mark_submitted();
  record.enqueued();
  return true;
}

// A view without the repetitions of an expanded tensor.
at::Tensor without_repetitions(const at::Tensor& tensor) {
  c10::DimVector sizes(tensor.sizes());
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (tensor.strides()[i] == 0 && sizes[i] > 1) sizes[i] = 1;
  }
  return at::native::as_strided_tensorimpl(tensor, sizes, tensor.strides(),
                                           tensor.storage_offset());
}

at::Tensor& fill_scalar(at::Tensor& self, const at::Scalar& value) {
  check_has_storage(self);
  if (fill_dense(self, value)) return self;
  const at::Tensor target = without_repetitions(self);
  if (fill_dense(target, value)) return self;
  const at::Tensor filled = empty_on(self.device().index(), target.sizes(), self.scalar_type());
  fill_dense(filled, value);
  copy_into(target, filled);
  return self;
}

at::Tensor& zero_(at::Tensor& self) { return fill_scalar(self, 0); }

void add(const char* name, c10::KernelFunction function) {
  RoutedKernel kernel;
  kernel.kernel = std::move(function);
  kernel.placement = Placement::kDevice;
  kernel.separate_memory_only = true;
  add_kernel_to_entry(router_entry(name), std::move(kernel));
}

}  // namespace

void register_copies(YieldingLibrary& library) {
  library.impl("_copy_from", TORCH_FN(copy_from));
  library.impl("_copy_from_and_resize", TORCH_FN(copy_from_and_resize));
  library.impl("_local_scalar_dense", TORCH_FN(local_scalar_dense));
}

void fill_on_device(const at::Tensor& tensor, const at::Scalar& value) {
  static Operator& entry = router_entry("aten::fill_.Scalar");
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::fill_", "Scalar");
  const PlacementScope device_placement(PlacementSetting::kDevice);
  at::Tensor self = tensor;
  CallRouted<at::Tensor&(at::Tensor&, const at::Scalar&)>::call(entry, op, self, value);
}

void register_fills() {
  add("aten::fill_.Scalar", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(fill_scalar)));
  add("aten::zero_", c10::KernelFunction::makeFromUnboxedFunction(TORCH_FN(zero_)));
}

}  // namespace outboard
