// Structured operators of PyTorch, run on device tensors whose memory the host shares.
//
// A structured operator is a class: `meta` checks the arguments and requests outputs, `impl`
// computes. PyTorch generates the code around the classes for its own devices; the templates here
// are that code for this backend, over the class of the CPU. Two forms:
//
// * PointwiseKernels: operators that are a TensorIterator. `meta` and `impl` run on the device
//   tensors; `impl` ends in a DispatchStub whose slot for this backend is the CPU kernel
//   (stubs.cpp), which gets pointers only. TensorIterator converts dtypes for the CPU only, so
//   calls that need a conversion go through the router.
// * AliasedKernels: all others. `meta` and `impl` run on CPU tensors over the same memory; outputs
//   are allocated on the device.
#pragma once

#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>

#include "cpu_kernels/typed/typed_kernel.h"
#include "runtime/memory/shared_memory.h"
#include "runtime/streams/stream.h"
#include "tensors/host_view.h"
#include "torch_version.h"

namespace outboard::cpu_kernels {

// ---- Outputs

// A new tensor in the memory of `stream`'s device. Empty strides: contiguous, in the memory format
// of `options`.
at::Tensor new_output(StreamState& stream, at::IntArrayRef sizes, at::IntArrayRef strides,
                      const at::TensorOptions& options);
// Checks that the dtype matches that of `out=`, and resizes `out`, with a warning if it had
// elements. The device was checked before.
void prepare_out(const at::Tensor& out, at::IntArrayRef sizes, at::IntArrayRef strides,
                 const at::TensorOptions& options);
// Checks `self` of an in-place operator.
void check_in_place(const at::Tensor& self, at::IntArrayRef sizes,
                    const at::TensorOptions& options);

// ---- From the signature of `meta` to the signature that the dispatcher wants

template <class T>
struct DispatcherArgument {
  using type = T;
};
template <>
struct DispatcherArgument<at::OptionalTensorRef> {
  using type = const std::optional<at::Tensor>&;
};
template <>
struct DispatcherArgument<at::OptionalScalarRef> {
  using type = const std::optional<at::Scalar>&;
};
template <class T>
using dispatcher_argument_t = typename DispatcherArgument<T>::type;

template <class F>
struct MemberFunction;
template <class Return, class Class, class... Args>
struct MemberFunction<Return (Class::*)(Args...)> {
  template <template <class...> class Template, class... Before>
  using apply = Template<Before..., Args...>;
  static constexpr std::size_t arity = sizeof...(Args);
};

// Number of outputs: arguments of `impl` beyond those of `meta`. Operators whose `meta` passes
// values on to `impl` have separate kernels.
template <class Impl>
constexpr std::size_t kOutputs =
    MemberFunction<decltype(&Impl::impl)>::arity - MemberFunction<decltype(&Impl::meta)>::arity;

// A tuple of `n` values of type T.
template <std::size_t n, class T>
using Repeated = decltype(std::tuple_cat(std::declval<std::array<T, n>>()));

// ---- Operators that are a TensorIterator

// The dtype of an operator's output.
enum class OutputDtype {
  kCommon,  // the dtype of the computation
  kBool,    // bool, unless the computation is in the output's dtype
};

// Whether a built iterator has an operand that the CPU's iterator would have converted.
inline bool needs_conversion(const at::TensorIteratorBase& iterator, OutputDtype output) {
  const at::ScalarType common = iterator.common_dtype();
  for (int i = 0; i < iterator.ntensors(); ++i) {
    const at::ScalarType dtype = iterator.dtype(i);
    if (dtype == common) continue;
    if (i < iterator.noutputs() && output == OutputDtype::kBool && dtype == at::kBool) continue;
    return true;
  }
  return false;
}

template <class Impl>
struct PointwiseFunctional final : Impl {
  explicit PointwiseFunctional(StreamState& stream) : stream_(stream) {}

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    output_ = new_output(stream_, sizes, strides, options);
    Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t) override { return output_; }

  StreamState& stream_;
  at::Tensor output_;
};

// In-place and out=: the output exists.
template <class Impl, bool in_place>
struct PointwiseInto final : Impl {
  explicit PointwiseInto(at::Tensor& output) : output_(output) {}

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    prepare(sizes, strides, options);
    if (output_.strides() != strides) {
      proxy_ = new_output(current_stream_state(output_.device().index()), sizes, strides, options);
    }
    Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    prepare(sizes, strides, options);
    Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t) override {
    return proxy_.defined() ? proxy_ : output_;
  }
  void copy_proxy() {
    if (proxy_.defined()) output_.copy_(proxy_);
  }

  at::Tensor& output_;
  at::Tensor proxy_;

 private:
  void prepare(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    if constexpr (in_place) {
      check_in_place(output_, sizes, options);
    } else {
      prepare_out(output_, sizes, strides, options);
    }
  }
};

template <class T>
inline const T& for_meta(const T& argument, const Arguments&, const at::Tensor&) {
  return argument;
}
inline const at::Tensor& for_meta(const at::Tensor& argument, const Arguments& arguments,
                                  const at::Tensor& converted) {
  return argument.unsafeGetTensorImpl() == arguments.scalar() ? converted : argument;
}
inline at::OptionalTensorRef for_meta(const std::optional<at::Tensor>& argument,
                                      const Arguments& arguments, const at::Tensor& converted) {
  if (!argument.has_value() || !argument->defined()) return {};
  return at::OptionalTensorRef(for_meta(*argument, arguments, converted));
}
inline at::OptionalScalarRef for_meta(const std::optional<at::Scalar>& argument, const Arguments&,
                                      const at::Tensor&) {
  return argument.has_value() ? at::OptionalScalarRef(&*argument) : at::OptionalScalarRef();
}

// Runs `op`, of a class above, on the arguments. False, with nothing computed, if an operand needs
// a conversion.
template <OutputDtype output, class Op, class... Args>
inline bool run_pointwise(Op& op, StreamState& stream, const Arguments& arguments,
                          const Args&... args) {
  at::Tensor converted;
  if (arguments.scalar()) {
    converted = scalar_as(arguments.scalar(), arguments.dtype());
    if (!converted.defined()) return false;
  }
  op.meta(for_meta(args, arguments, converted)...);
  if (needs_conversion(op, output)) return false;
  // After the allocation of the output: another thread may have enqueued work that still uses this
  // memory.
  synchronize_stream(stream);
  op.impl(for_meta(args, arguments, converted)..., op.maybe_get_output(0));
  return true;
}

template <class Impl, OutputDtype output, class First, class... Rest>
struct PointwiseSignature {
  using FirstArgument = dispatcher_argument_t<First>;

  template <OverloadName name>
  static at::Tensor functional(FirstArgument first, dispatcher_argument_t<Rest>... rest) {
    const Arguments arguments(first, rest...);
    if (arguments.on_one_device_but_a_scalar() &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      StreamState& stream = current_stream_state(arguments.device());
      PointwiseFunctional<Impl> op(stream);
      if (run_pointwise<output>(op, stream, arguments, first, rest...)) {
        return std::move(op.output_);
      }
    }
    return TypedOverload<name>::template routed<at::Tensor, FirstArgument,
                                                dispatcher_argument_t<Rest>...>(first, rest...);
  }

  template <OverloadName name>
  static at::Tensor& in_place(at::Tensor& self, dispatcher_argument_t<Rest>... rest) {
    const Arguments arguments(self, rest...);
    if (arguments.on_one_device_but_a_scalar() && self.is_privateuseone() &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      StreamState& stream = current_stream_state(arguments.device());
      PointwiseInto<Impl, true> op(self);
      if (run_pointwise<output>(op, stream, arguments, self, rest...)) {
        op.copy_proxy();
        return self;
      }
    }
    return TypedOverload<name>::template routed<at::Tensor&, at::Tensor&,
                                                dispatcher_argument_t<Rest>...>(self, rest...);
  }

  template <OverloadName name>
  static at::Tensor& out(FirstArgument first, dispatcher_argument_t<Rest>... rest,
                         at::Tensor& out) {
    const Arguments arguments(first, rest..., out);
    if (arguments.on_one_device_but_a_scalar() && out.is_privateuseone() &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      StreamState& stream = current_stream_state(arguments.device());
      PointwiseInto<Impl, false> op(out);
      if (run_pointwise<output>(op, stream, arguments, first, rest...)) {
        op.copy_proxy();
        return out;
      }
    }
    return TypedOverload<name>::template routed<at::Tensor&, FirstArgument,
                                                dispatcher_argument_t<Rest>..., at::Tensor&>(
        first, rest..., out);
  }
};

template <class Impl, OutputDtype output>
struct PointwiseBinder {
  template <class... Args>
  using type = PointwiseSignature<Impl, output, Args...>;
};

// ---- All other structured operators

template <class Impl>
struct AliasedFunctional final : Impl {
  static constexpr std::size_t kCount = kOutputs<Impl>;
  explicit AliasedFunctional(StreamState& stream) : stream_(stream) {}

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    outputs_[index] = new_output(stream_, sizes, strides, options);
    views_[index] = HostView(outputs_[index]);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Impl>) {
      Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
    }
  }
  const at::Tensor& maybe_get_output(int64_t index) override { return views_[index].tensor(); }

  StreamState& stream_;
  std::array<at::Tensor, kCount> outputs_;
  std::array<HostView, kCount> views_;
};

template <class Impl, bool in_place>
struct AliasedInto final : Impl {
  static constexpr std::size_t kCount = kOutputs<Impl>;
  template <class... Tensors>
  explicit AliasedInto(Tensors&... outputs)
      : outputs_{std::ref(outputs)...}, views_{HostView(outputs)...} {}

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    prepare(index, sizes, strides, options);
    if (views_[index].tensor().strides() != strides) {
      proxies_[index] = at::detail::empty_strided_cpu(sizes, strides, options);
    }
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Impl>) {
      Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
    }
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    prepare(index, sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Impl>) {
      Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
    }
  }
  const at::Tensor& maybe_get_output(int64_t index) override {
    return proxies_[index].defined() ? proxies_[index] : views_[index].tensor();
  }
  void copy_proxies() {
    for (std::size_t i = 0; i < kCount; ++i) {
      if (proxies_[i].defined()) views_[i].tensor().copy_(proxies_[i]);
    }
  }

  std::array<std::reference_wrapper<at::Tensor>, kCount> outputs_;
  std::array<HostView, kCount> views_;
  std::array<at::Tensor, kCount> proxies_;

 private:
  void prepare(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
               const at::TensorOptions& options) {
    at::Tensor& output = outputs_[index];
    if constexpr (in_place) {
      check_in_place(output, sizes, options.device(output.device()));
    } else {
      const bool grows = output.sizes() != sizes;
      prepare_out(output, sizes, strides, options);
      // An iterator has borrowed the view by now, so it stays the same tensor.
      if (grows) views_[index].follow(output);
    }
  }
};

template <class T>
inline const T& as_cpu(const T& argument) {
  return argument;
}
inline HostView as_cpu(const at::Tensor& argument) { return HostView(argument, Access::kRead); }
inline std::optional<HostView> as_cpu(const std::optional<at::Tensor>& argument) {
  if (!argument.has_value() || !argument->defined()) return std::nullopt;
  return HostView(*argument, Access::kRead);
}
inline const at::Tensor& for_meta(const HostView& argument, const Arguments&, const at::Tensor&) {
  return argument.tensor();
}
inline at::OptionalTensorRef for_meta(const std::optional<HostView>& argument, const Arguments&,
                                      const at::Tensor&) {
  return argument.has_value() ? at::OptionalTensorRef(argument->tensor()) : at::OptionalTensorRef();
}

template <class Impl, class First, class... Rest>
struct AliasedSignature {
  using FirstArgument = dispatcher_argument_t<First>;
  static constexpr std::size_t kCount = kOutputs<Impl>;
  template <class T>
  using Results = std::conditional_t<kCount == 1, T, Repeated<kCount, T>>;

  template <OverloadName name>
  static Results<at::Tensor> functional(FirstArgument first, dispatcher_argument_t<Rest>... rest) {
    const Arguments arguments(first, rest...);
    if (arguments.on_one_device() &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      StreamState& stream = current_stream_state(arguments.device());
      synchronize_stream(stream);
      const CpuKernelMemory memory(stream);
      AliasedFunctional<Impl> op(stream);
      run(op, stream, as_cpu(first), as_cpu(rest)...);
      if constexpr (kCount == 1) {
        return std::move(op.outputs_[0]);
      } else {
        return std::apply([](auto&... outputs) { return std::make_tuple(std::move(outputs)...); },
                          op.outputs_);
      }
    }
    return TypedOverload<name>::template routed<Results<at::Tensor>, FirstArgument,
                                                dispatcher_argument_t<Rest>...>(first, rest...);
  }

  // Aliases have separate storages, so the operator would not notice overlapping arguments. The
  // router preserves shared storages, and the operator raises as on CPU.
  template <OverloadName name>
  static at::Tensor& in_place(at::Tensor& self, dispatcher_argument_t<Rest>... rest) {
    const Arguments arguments(self, rest...);
    if (arguments.on_one_device() && !shares_storage(self, rest...) &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      StreamState& stream = current_stream_state(arguments.device());
      synchronize_stream(stream);
      const CpuKernelMemory memory(stream);
      AliasedInto<Impl, true> op(self);
      // The same tensor as input and output, as the checks for overlap expect.
      run(op, stream, at::Tensor(op.views_[0].tensor()), as_cpu(rest)...);
      op.copy_proxies();
      return self;
    }
    return TypedOverload<name>::template routed<at::Tensor&, at::Tensor&,
                                                dispatcher_argument_t<Rest>...>(self, rest...);
  }

  // One output. If it shares storage with an input, resizing would free the memory under the
  // input's alias; the router preserves shared storages.
  template <OverloadName name>
  static at::Tensor& out(FirstArgument first, dispatcher_argument_t<Rest>... rest,
                         at::Tensor& out) {
    const Arguments arguments(first, rest..., out);
    if (arguments.on_one_device() && !shares_storage(out, first, rest...) &&
        runs_plainly(TypedOverload<name>::entry(), arguments.device())) {
      StreamState& stream = current_stream_state(arguments.device());
      synchronize_stream(stream);
      const CpuKernelMemory memory(stream);
      AliasedInto<Impl, false> op(out);
      run(op, stream, as_cpu(first), as_cpu(rest)...);
      op.copy_proxies();
      return out;
    }
    return TypedOverload<name>::template routed<at::Tensor&, FirstArgument,
                                                dispatcher_argument_t<Rest>..., at::Tensor&>(
        first, rest..., out);
  }

 private:
  template <class Op, class... Args>
  static void run(Op& op, StreamState& stream, const Args&... args) {
    const Arguments none;
    op.meta(for_meta(args, none, at::Tensor())...);
    // Again, after the allocation of the outputs (see run_pointwise).
    synchronize_stream(stream);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      op.impl(for_meta(args, none, at::Tensor())..., op.maybe_get_output(i)...);
    }(std::make_index_sequence<kCount>());
  }

  template <class... Args>
  static bool shares_storage(const at::Tensor& out, const Args&... args) {
    return (same_storage(out, args) || ...);
  }
  static bool same_storage(const at::Tensor& out, const at::Tensor& argument) {
    return argument.defined() && argument.is_alias_of(out);
  }
  static bool same_storage(const at::Tensor& out, const std::optional<at::Tensor>& argument) {
    return argument.has_value() && same_storage(out, *argument);
  }
  template <class T>
  static bool same_storage(const at::Tensor&, const T&) {
    return false;
  }
};

template <class Impl>
struct AliasedBinder {
  template <class... Args>
  using type = AliasedSignature<Impl, Args...>;
};
template <class Impl>
using AliasedKernels = typename MemberFunction<decltype(&Impl::meta)>::template apply<
    AliasedBinder<Impl>::template type>;

// Without access to the stubs of CPU kernels, pointwise operators run as all others.
#ifdef OUTBOARD_CPU_STUBS
template <class Impl, OutputDtype output = OutputDtype::kCommon>
using PointwiseKernels = typename MemberFunction<decltype(&Impl::meta)>::template apply<
    PointwiseBinder<Impl, output>::template type>;
#else
template <class Impl, OutputDtype = OutputDtype::kCommon>
using PointwiseKernels = AliasedKernels<Impl>;
#endif
template <class Impl>
using PredicateKernels = PointwiseKernels<Impl, OutputDtype::kBool>;

}  // namespace outboard::cpu_kernels

// Registrations: the CPU's class without "structured_", then the names of the overloads.
// docs/dispatch.md shows an expansion.
#define OUTBOARD_STRUCTURED_FUNCTIONAL(kernels, name) \
  OUTBOARD_CPU_ROW(name, ::outboard::cpu_kernels::kernels::functional<name>)
#define OUTBOARD_STRUCTURED_OUT_OF_PLACE(kernels, functional_name, out_name) \
  OUTBOARD_STRUCTURED_FUNCTIONAL(kernels, functional_name)                   \
  OUTBOARD_CPU_ROW(out_name, ::outboard::cpu_kernels::kernels::out<out_name>)
#define OUTBOARD_STRUCTURED(kernels, functional_name, in_place_name, out_name) \
  OUTBOARD_STRUCTURED_OUT_OF_PLACE(kernels, functional_name, out_name)         \
  OUTBOARD_CPU_ROW(in_place_name, ::outboard::cpu_kernels::kernels::in_place<in_place_name>)

#define OUTBOARD_POINTWISE(impl, ...) \
  OUTBOARD_STRUCTURED(PointwiseKernels<at::native::structured_##impl>, __VA_ARGS__)
#define OUTBOARD_POINTWISE_OUT_OF_PLACE(impl, ...) \
  OUTBOARD_STRUCTURED_OUT_OF_PLACE(PointwiseKernels<at::native::structured_##impl>, __VA_ARGS__)
// For operators whose functional overload returns bool.
#define OUTBOARD_PREDICATE(impl, ...) \
  OUTBOARD_STRUCTURED(PredicateKernels<at::native::structured_##impl>, __VA_ARGS__)
#define OUTBOARD_ALIASED(impl, ...) \
  OUTBOARD_STRUCTURED(AliasedKernels<at::native::structured_##impl>, __VA_ARGS__)
#define OUTBOARD_ALIASED_OUT_OF_PLACE(impl, ...) \
  OUTBOARD_STRUCTURED_OUT_OF_PLACE(AliasedKernels<at::native::structured_##impl>, __VA_ARGS__)
// For operators with several outputs, whose out= overload is left to the router.
#define OUTBOARD_ALIASED_FUNCTIONAL(impl, name) \
  OUTBOARD_STRUCTURED_FUNCTIONAL(AliasedKernels<at::native::structured_##impl>, name)
