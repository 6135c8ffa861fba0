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
#include <ATen/NativeFunctions.h>
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <optional>
#include <tuple>
#include <type_traits>
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

// ---- The class of an operator with its outputs. `aliased`: it computes on CPU tensors over their
// memory; else on the device tensors.

template <class Impl>
constexpr bool kIsIterator = std::is_base_of_v<at::TensorIteratorBase, Impl>;

// New outputs.
template <class Impl, bool aliased>
struct NewOutputs final : Impl {
  static constexpr std::size_t kCount = kOutputs<Impl>;
  explicit NewOutputs(StreamState& stream) : stream_(stream) {}

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    outputs_[index] = new_output(stream_, sizes, strides, options);
    if constexpr (aliased) views_[index] = HostView(outputs_[index]);
    if constexpr (kIsIterator<Impl>) {
      Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
    }
  }
  const at::Tensor& maybe_get_output(int64_t index) override {
    if constexpr (aliased) {
      return views_[index].tensor();
    } else {
      return outputs_[index];
    }
  }

  StreamState& stream_;
  std::array<at::Tensor, kCount> outputs_;
  std::array<HostView, aliased ? kCount : 0> views_;
};

// One output, which exists: of an in-place operator, or `out=`.
template <class Impl, bool aliased, bool in_place>
struct GivenOutput final : Impl {
  explicit GivenOutput(at::Tensor& output) : output_(output) {
    if constexpr (aliased) view_ = HostView(output);
  }

  void set_output_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                          at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    prepare(sizes, strides, options);
    if (target().strides() != strides) {
      if constexpr (aliased) {
        proxy_ = at::detail::empty_strided_cpu(sizes, strides, options);
      } else {
        proxy_ =
            new_output(current_stream_state(output_.device().index()), sizes, strides, options);
      }
    }
    set_iterator(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  void set_output_raw_strided(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::TensorOptions options OUTBOARD_NAMES_PARAMETER) override {
    prepare(sizes, strides, options);
    set_iterator(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
  }
  const at::Tensor& maybe_get_output(int64_t) override {
    return proxy_.defined() ? proxy_ : target();
  }

  // The output as the class sees it.
  const at::Tensor& target() const {
    if constexpr (aliased) {
      return view_.tensor();
    } else {
      return output_;
    }
  }
  void copy_proxy() {
    if (proxy_.defined()) target().copy_(proxy_);
  }

 private:
  void prepare(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
    if constexpr (in_place) {
      check_in_place(output_, sizes, options);
    } else {
      const bool grows = output_.sizes() != sizes;
      prepare_out(output_, sizes, strides, options);
      // An iterator has borrowed the view by now, so it stays the same tensor.
      if (aliased && grows) view_.follow(output_);
    }
  }
  void set_iterator(int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
                    at::TensorOptions options OUTBOARD_NAMES_PARAMETER) {
    if constexpr (kIsIterator<Impl>) {
      Impl::set_output_raw_strided(index, sizes, strides, options OUTBOARD_NAMES_ARGUMENT);
    }
  }

  at::Tensor& output_;
  HostView view_;
  at::Tensor proxy_;
};

// ---- Form of operators that are a TensorIterator: on the device tensors

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

template <OutputDtype output>
struct OnDeviceTensors {
  static constexpr bool kAliased = false;

  static bool takes(const Arguments& arguments) { return arguments.on_one_device_but_a_scalar(); }
  template <class... Args>
  static bool writes(const at::Tensor& out, const Args&...) {
    return out.is_privateuseone();
  }

  // Runs `op` on the arguments. False, with nothing computed, if an operand needs a conversion.
  template <class Op, class... Args>
  static bool run(Op& op, StreamState& stream, const Arguments& arguments, const Args&... args) {
    at::Tensor converted;
    if (arguments.scalar()) {
      converted = scalar_as(arguments.scalar(), arguments.dtype());
      if (!converted.defined()) return false;
    }
    op.meta(for_meta(args, arguments, converted)...);
    if (needs_conversion(op, output)) return false;
    // After the allocation of the output: another thread may have enqueued work that still uses
    // this memory.
    synchronize_stream(stream);
    op.impl(for_meta(args, arguments, converted)..., op.maybe_get_output(0));
    return true;
  }
};

// ---- Form of all others: on aliases

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

inline bool same_storage(const at::Tensor& out, const at::Tensor& argument) {
  return argument.defined() && argument.is_alias_of(out);
}
inline bool same_storage(const at::Tensor& out, const std::optional<at::Tensor>& argument) {
  return argument.has_value() && same_storage(out, *argument);
}
template <class T>
inline bool same_storage(const at::Tensor&, const T&) {
  return false;
}

struct OnAliases {
  static constexpr bool kAliased = true;

  static bool takes(const Arguments& arguments) { return arguments.on_one_device(); }
  // Aliases have separate storages, so the operator would not notice overlapping arguments, and
  // resizing `out=` would free the memory under an input's alias. The router preserves shared
  // storages, and the operator raises as on CPU.
  template <class... Args>
  static bool writes(const at::Tensor& out, const Args&... args) {
    return !(same_storage(out, args) || ...);
  }

  template <class Op, class... Args>
  static bool run(Op& op, StreamState& stream, const Arguments&, const Args&... args) {
    synchronize_stream(stream);
    const CpuKernelMemory memory(stream);
    run_on_views(op, stream, as_cpu(args)...);
    return true;
  }

 private:
  template <class Op, class... Args>
  static void run_on_views(Op& op, StreamState& stream, const Args&... args) {
    const Arguments none;
    op.meta(for_meta(args, none, at::Tensor())...);
    // Again, after the allocation of the outputs (see OnDeviceTensors).
    synchronize_stream(stream);
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      op.impl(for_meta(args, none, at::Tensor())..., op.maybe_get_output(i)...);
    }(std::make_index_sequence<kOutputs<Op>>());
  }
};

// ---- The kernels of an operator's overloads

template <class Form, class Impl, class First, class... Rest>
struct Kernels {
  using FirstArgument = dispatcher_argument_t<First>;
  static constexpr std::size_t kCount = kOutputs<Impl>;
  template <class T>
  using Results = std::conditional_t<kCount == 1, T, Repeated<kCount, T>>;

  template <OverloadName name>
  static Results<at::Tensor> functional(FirstArgument first, dispatcher_argument_t<Rest>... rest) {
    if (auto results = new_results<name>(first, rest...)) return std::move(*results);
    return TypedOverload<name>::template routed<Results<at::Tensor>>(first, rest...);
  }

  template <OverloadName name>
  static at::Tensor& in_place(at::Tensor& self, dispatcher_argument_t<Rest>... rest) {
    if (write_in_place<name>(self, rest...)) return self;
    return TypedOverload<name>::template routed<at::Tensor&>(self, rest...);
  }

  template <OverloadName name>
  static at::Tensor& out(FirstArgument first, dispatcher_argument_t<Rest>... rest,
                         at::Tensor& out) {
    const Arguments arguments(first, rest..., out);
    if (takes<name>(arguments) && Form::writes(out, first, rest...)) {
      GivenOutput<Impl, Form::kAliased, false> op(out);
      if (Form::run(op, current_stream_state(arguments.device()), arguments, first, rest...)) {
        op.copy_proxy();
        return out;
      }
    }
    return TypedOverload<name>::template routed<at::Tensor&>(first, rest..., out);
  }

  // For overloads with other arguments: `name` is theirs, `args` are those of this operator.
  // Nothing is computed if the router gets the call.
  template <OverloadName name, class... Args>
  static std::optional<Results<at::Tensor>> new_results(const Args&... args) {
    const Arguments arguments(args...);
    if (!takes<name>(arguments)) return std::nullopt;
    StreamState& stream = current_stream_state(arguments.device());
    NewOutputs<Impl, Form::kAliased> op(stream);
    if (!Form::run(op, stream, arguments, args...)) return std::nullopt;
    if constexpr (kCount == 1) {
      return std::move(op.outputs_[0]);
    } else {
      return std::apply([](auto&... outputs) { return std::make_tuple(std::move(outputs)...); },
                        op.outputs_);
    }
  }
  template <OverloadName name, class... Args>
  static bool write_in_place(at::Tensor& self, const Args&... args) {
    const Arguments arguments(self, args...);
    if (!takes<name>(arguments) || !Form::writes(self, args...)) return false;
    GivenOutput<Impl, Form::kAliased, true> op(self);
    if (!Form::run(op, current_stream_state(arguments.device()), arguments, op.target(), args...)) {
      return false;
    }
    op.copy_proxy();
    return true;
  }

 private:
  template <OverloadName name>
  static bool takes(const Arguments& arguments) {
    return Form::takes(arguments) && runs_plainly(TypedOverload<name>::entry(), arguments.device());
  }
};

template <class Form, class Impl>
struct Binder {
  template <class... Args>
  using type = Kernels<Form, Impl, Args...>;
};
template <class Form, class Impl>
using KernelsOf = typename MemberFunction<decltype(&Impl::meta)>::template apply<
    Binder<Form, Impl>::template type>;

template <class Impl>
using AliasedKernels = KernelsOf<OnAliases, Impl>;

// Without access to the stubs of CPU kernels, pointwise operators run as all others.
#ifdef OUTBOARD_CPU_STUBS
template <class Impl, OutputDtype output = OutputDtype::kCommon>
using PointwiseKernels = KernelsOf<OnDeviceTensors<output>, Impl>;
#else
template <class Impl, OutputDtype = OutputDtype::kCommon>
using PointwiseKernels = AliasedKernels<Impl>;
#endif
template <class Impl>
using PredicateKernels = PointwiseKernels<Impl, OutputDtype::kBool>;

}  // namespace outboard::cpu_kernels

// Registrations: the CPU's class without "structured_", then the names of the overloads.
#define OUTBOARD_STRUCTURED_FUNCTIONAL(kernels, name) \
  OUTBOARD_DIRECT(name, ::outboard::cpu_kernels::kernels::functional<name>)
#define OUTBOARD_STRUCTURED_OUT_OF_PLACE(kernels, functional_name, out_name) \
  OUTBOARD_STRUCTURED_FUNCTIONAL(kernels, functional_name)                   \
  OUTBOARD_DIRECT(out_name, ::outboard::cpu_kernels::kernels::out<out_name>)
#define OUTBOARD_STRUCTURED(kernels, functional_name, in_place_name, out_name) \
  OUTBOARD_STRUCTURED_OUT_OF_PLACE(kernels, functional_name, out_name)         \
  OUTBOARD_DIRECT(in_place_name, ::outboard::cpu_kernels::kernels::in_place<in_place_name>)

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
