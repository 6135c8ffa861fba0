// The CPU fallback: any operator with a CPU kernel, run boxed on device tensors.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "cpu_kernels/call/cpu_call.h"
#include "dispatch/report.h"
#include "dispatch/router.h"
#include "dispatch/tensor_arguments.h"
#include "runtime/generator.h"

namespace outboard {

// Arguments of an operator that need conversion, from its schema; made once.
struct CpuPlan {
  enum class Kind : uint8_t {
    kTensors,  // one, or a list of them
    kDevice,
    kGenerator,
    kPinMemory
  };
  struct Argument {
    uint16_t index;
    Kind kind;
    Access access;
    bool any_device;  // may be a CPU tensor of any size beside device tensors
  };
  std::vector<Argument> arguments;
  bool indexes = false;         // lists of indices may be on the CPU
  bool has_cpu_kernel = false;  // at the first call; libraries may register one later
};

namespace {

// Arguments that may be CPU tensors beside device tensors, as on CUDA. No names: all arguments.
struct MixedArguments {
  std::string_view name;
  std::array<std::string_view, 3> arguments;
};
constexpr std::array<MixedArguments, 13> kMixedArguments = {{
    {"aten::_copy_from", {}},
    {"aten::_copy_from_and_resize", {}},
    {"aten::_cudnn_ctc_loss", {}},
    {"aten::_ctc_loss", {"targets", "input_lengths", "target_lengths"}},
    {"aten::_ctc_loss_backward", {"targets", "input_lengths", "target_lengths"}},
    {"aten::_foreach_copy", {}},
    {"aten::_foreach_copy_", {}},
    {"aten::_pack_padded_sequence", {}},
    {"aten::copy_", {}},
    {"aten::segment_reduce", {"lengths", "offsets", "indices"}},
    {"aten::_segment_reduce_backward", {"lengths", "offsets", "indices"}},
    {"aten::_nested_from_padded", {}},
    {"aten::quantize_per_channel", {}},
}};

bool takes_any_device(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  for (const MixedArguments& mixed : kMixedArguments) {
    if (mixed.name != schema.name()) continue;
    const auto& names = mixed.arguments;
    return names[0].empty() || std::ranges::find(names, argument.name()) != names.end();
  }
  return false;
}

// Operators with a tensor first and a list of indices into it.
constexpr std::array<std::string_view, 9> kIndexingOperators = {
    "aten::_index_put_impl",
    "aten::_index_put_impl_",
    "aten::_unsafe_index",
    "aten::_unsafe_index_put",
    "aten::_unsafe_masked_index",
    "aten::_unsafe_masked_index_put_accumulate",
    "aten::index",
    "aten::index_put",
    "aten::index_put_",
};

// Operators that update running statistics, contrary to their schemas.
constexpr std::array<std::string_view, 2> kUpdatingStatistics = {
    "aten::native_batch_norm",
    "aten::batch_norm_update_stats",
};

// Whether an argument is written.
bool is_written(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  if (argument.alias_info() != nullptr && argument.alias_info()->isWrite()) return true;
  return (argument.name() == "running_mean" || argument.name() == "running_var") &&
         std::ranges::find(kUpdatingStatistics, schema.name()) != kUpdatingStatistics.end();
}

const CpuPlan* make_plan(const c10::OperatorHandle& op) {
  using Kind = CpuPlan::Kind;
  auto* plan = new CpuPlan;
  plan->has_cpu_kernel = op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU);
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    c10::TypePtr type = arguments[i].type();
    if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    const Access access = is_written(op.schema(), arguments[i]) ? Access::kWrite : Access::kRead;
    std::optional<Kind> kind;
    c10::TypePtr element = type;
    if (const auto list = type->cast<c10::ListType>()) element = list->getElementType();
    if (element->isSubtypeOf(*c10::OptionalType::ofTensor())) {
      kind = Kind::kTensors;
    } else if (type->kind() == c10::TypeKind::DeviceObjType) {
      kind = Kind::kDevice;
    } else if (type->kind() == c10::TypeKind::GeneratorType) {
      kind = Kind::kGenerator;
    } else if (type->kind() == c10::TypeKind::BoolType && arguments[i].name() == "pin_memory") {
      kind = Kind::kPinMemory;
    }
    if (!kind.has_value()) continue;
    const bool any_device = takes_any_device(op.schema(), arguments[i]);
    plan->arguments.push_back({static_cast<uint16_t>(i), *kind, access, any_device});
  }
  plan->indexes =
      std::ranges::find(kIndexingOperators, op.schema().name()) != kIndexingOperators.end();
  return plan;
}

const CpuPlan& plan_of(Operator& entry, const c10::OperatorHandle& op) {
  if (const CpuPlan* plan = entry.cpu_plan.load(std::memory_order_acquire)) return *plan;
  const CpuPlan* made = make_plan(op);
  const CpuPlan* known = nullptr;
  if (entry.cpu_plan.compare_exchange_strong(known, made)) return *made;
  delete made;
  return *known;
}

// CPU operands other than scalars do not mix with device tensors.
void check_same_device(const at::Tensor& tensor, const CpuPlan& plan,
                       const CpuPlan::Argument& argument, c10::DeviceIndex device) {
  if (!tensor.defined() || tensor.is_privateuseone() || argument.any_device || plan.indexes) return;
  TORCH_CHECK(tensor.is_cpu() && tensor.dim() == 0 && argument.access == Access::kRead,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              device_of(device), " and ", tensor.device(), "! Move one with .to()");
}

// Indices on the CPU are allowed for all tensors, those on a device for tensors on it; stored
// values are on the tensor's device or scalars.
void check_indexing(const torch::jit::Stack& stack, const CpuPlan& plan, size_t base) {
  const auto argument_at = [&](size_t i) -> const c10::IValue& {
    return stack[base + plan.arguments[i].index];
  };
  const c10::Device own = argument_at(0).toTensor().device();
  for (size_t i = 1; i < plan.arguments.size(); ++i) {
    const c10::IValue& value = argument_at(i);
    if (value.isList()) {
      for (const c10::IValue& index : value.toListRef()) {
        if (!index.isTensor() || !index.toTensor().defined()) continue;
        const c10::Device device = index.toTensor().device();
        TORCH_CHECK(device.is_cpu() || device == own,
                    "indices should be either on cpu or on the same device as the indexed tensor (",
                    own, "), and some are on ", device, "; move them with .to()");
      }
    } else if (value.isTensor() && value.toTensor().defined()) {
      const at::Tensor& tensor = value.toTensor();
      TORCH_CHECK(tensor.device() == own ||
                      (tensor.dim() == 0 && plan.arguments[i].access == Access::kRead),
                  "Expected all tensors to be on the same device, but found at least two devices, ",
                  own, " and ", tensor.device(), "! Move one with .to()");
    }
  }
}

// Random operators without a built-in kernel draw from a CPU generator seeded by (seed, offset).
at::Generator host_generator(const c10::IValue& given, c10::DeviceIndex device) {
  std::optional<at::Generator> generator;
  if (given.isGenerator()) generator = given.toGenerator();
  const PhiloxState state = reserve_philox(generator, device, 1);
  return at::make_generator<at::CPUGeneratorImpl>(state.seed + state.offset * 0x9E3779B97F4A7C15u);
}

void map_argument(c10::IValue& value, const CpuPlan::Argument& argument, const CpuPlan& plan,
                  c10::DeviceIndex device, CpuCall& call) {
  using Kind = CpuPlan::Kind;
  switch (argument.kind) {
    case Kind::kTensors:
      convert_tensors(value, [&](const at::Tensor& tensor) {
        check_same_device(tensor, plan, argument, device);
        return call.map(tensor, argument.access);
      });
      break;
    case Kind::kDevice:
      if (value.isDevice() && value.toDevice().is_privateuseone()) value = c10::Device(c10::kCPU);
      break;
    case Kind::kGenerator:
      value = host_generator(value, device);
      break;
    case Kind::kPinMemory:
      TORCH_CHECK(!(value.isBool() && value.toBool()),
                  "only CPU tensors can be pinned, and one on ", device_of(device),
                  " was asked for; leave pin_memory out");
      break;
  }
}

}  // namespace

void run_on_host(Operator& entry, const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                 torch::jit::Stack* stack, c10::DeviceIndex device, ReportedCall& reported) {
  // Called for dense tensors, and with other keys for sparse, nested and quantized ones.
  const bool dense = !keys.has_any(kOtherLayoutKeys);
  const CpuPlan& plan = plan_of(entry, op);
  TORCH_CHECK_NOT_IMPLEMENTED(
      !dense || plan.has_cpu_kernel || op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU),
      entry.name, " was asked for on ", device_of(device),
      ", and neither the device nor the CPU has a kernel for it; register one with "
      "torch_outboard.kernel");
  for (const auto& [layout, key] : {std::pair("nested", c10::DispatchKey::NestedTensorCPU),
                                    std::pair("quantized", c10::DispatchKey::QuantizedCPU)}) {
    const c10::DispatchKey functionality = c10::toFunctionalityKey(key);
    TORCH_CHECK_NOT_IMPLEMENTED(
        !keys.has(functionality) || op.hasComputedKernelForDispatchKey(key), entry.name,
        " was asked for with ", layout, " tensors on ", device_of(device),
        ", and neither the device nor the CPU has a kernel for those; make them dense first");
  }
  const size_t base = stack->size() - op.schema().arguments().size();
  if (plan.indexes) check_indexing(*stack, plan, base);
  CpuCall call(device);
  for (const CpuPlan::Argument& argument : plan.arguments) {
    map_argument((*stack)[base + argument.index], argument, plan, device, call);
  }
  {
    // Autograd already ran on the device tensors. Usually it has excluded its keys itself.
    std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
    if (!c10::impl::tls_local_dispatch_key_set().excluded_.has_all(
            c10::autograd_dispatch_keyset_with_ADInplaceOrView)) {
      guard.emplace();
    }
    if (C10_LIKELY(dense)) {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    } else {
      op.callBoxed(stack);
    }
  }
  for (size_t i = base; i < stack->size(); ++i) {
    convert_tensors((*stack)[i], [&](at::Tensor host) { return call.result(std::move(host)); });
  }
  call.finish();
  reported.add_copied_bytes(call.copied_bytes());
}

}  // namespace outboard
