#include "dispatch/external/raw_kernels.h"

#include <string_view>
#include <utility>

namespace outboard {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;
constexpr std::string_view kRegisteredAt = "registered at ";

// Holds the kernel as the dispatcher has it, and knows when that has let go of it.
class RawKernel final : public c10::OperatorKernel {
 public:
  explicit RawKernel(c10::SafeKernelFunction kernel) : kernel_(std::move(kernel)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    kernel_.callBoxed(op, keys, stack);
  }

 private:
  const c10::SafeKernelFunction kernel_;
};

bool has_composite(const c10::OperatorHandle& op) {
  for (const c10::DispatchKey key :
       {c10::DispatchKey::CompositeImplicitAutograd, c10::DispatchKey::CompositeExplicitAutograd,
        c10::DispatchKey::CompositeExplicitAutogradNonFunctional}) {
    if (op.hasKernelForDispatchKey(key)) return true;
  }
  return false;
}

// "file:line" where the dispatcher says so.
std::string place_of(const std::string& debug) {
  const std::string_view text = debug;
  return std::string(text.starts_with(kRegisteredAt) ? text.substr(kRegisteredAt.size()) : text);
}

bool is_python(const std::string& place) {
  const std::string file = place.substr(0, place.rfind(':'));
  return file.ends_with(".py") || file.starts_with("<");
}

}  // namespace

std::optional<RoutedKernel> raw_kernel(const c10::OperatorHandle& op) {
  const bool own = op.hasKernelForDispatchKey(kKey);
  if (own && op.isKernelFallthroughKernel(kKey)) return std::nullopt;
  // Else what calls reach is a fallback for all operators, if anything.
  if (!own && (has_composite(op) || !op.hasComputedKernelForDispatchKey(kKey))) return std::nullopt;
  c10::SafeKernelFunction kernel = op.getComputedKernelForDispatchKey(kKey);
  if (kernel.debug().find(kKitSignature) != std::string::npos) return std::nullopt;
  RoutedKernel row;
  row.origin = place_of(kernel.debug());
  row.raw = true;
  row.source = is_python(row.origin) ? Source::kUser : Source::kVendor;
  row.placement = own ? Placement::kDevice : Placement::kCopied;
  row.kernel =
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<RawKernel>(std::move(kernel)));
  return row;
}

bool is_withdrawn(const RoutedKernel& kernel, const c10::OperatorHandle& op,
                  const std::exception& error) {
  if (!kernel.raw) return false;
  // Two registrations may have been made in one place.
  return std::string_view(error.what()).find("SafeKernelFunction has been invalidated") !=
             std::string_view::npos ||
         op.dumpState().find(kernel.origin) == std::string::npos;
}

}  // namespace outboard
