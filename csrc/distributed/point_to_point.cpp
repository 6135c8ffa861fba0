// Gloo's point-to-point communication is rejected for device tensors.
//
// Gloo rejects collectives on unknown devices, but `send` and `recv` pass the address to the
// network: before the work that fills the memory is done, and even if the host cannot access it.
#if __has_include(<torch/csrc/distributed/c10d/ProcessGroup.hpp>)

#ifndef USE_DISTRIBUTED
#define USE_DISTRIBUTED
#endif

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include <algorithm>

namespace outboard {
namespace {

void check_backend(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                   torch::jit::Stack* stack) {
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const auto tensors = arguments[0].toListRef();
  const auto on_device = std::find_if(tensors.begin(), tensors.end(), [](const c10::IValue& value) {
    return value.toTensor().is_privateuseone();
  });
  if (on_device != tensors.end()) {
    const auto group = arguments[1].toCustomClass<c10d::ProcessGroup>();
    const std::string backend = group->getBackend(c10::DeviceType::PrivateUse1)->getBackendName();
    TORCH_CHECK(backend != "gloo", op.schema().name(), " was asked for a tensor on ",
                on_device->toTensor().device(),
                ", and Gloo sends and receives memory of the host only; send tensor.cpu(), or "
                "receive into a CPU tensor and copy it");
  }
  op.redispatchBoxed(
      keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::BackendSelect),
      stack);
}

// At a key that every call has, also in inference mode. The device's own key has PyTorch's kernels,
// which call the process group.
TORCH_LIBRARY_IMPL(c10d, BackendSelect, library) {
  for (const char* name : {"send", "recv_", "recv_any_source_"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&check_backend>());
  }
}

}  // namespace
}  // namespace outboard

#endif
