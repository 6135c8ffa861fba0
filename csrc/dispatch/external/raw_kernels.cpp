#include "dispatch/external/raw_kernels.h"

#include <string>
#include <string_view>
#include <utility>

namespace outboard {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::PrivateUse1;
constexpr std::string_view kRegisteredAt = "registered at ";

// Access to SafeKernelFunction::token_, which says whether the dispatcher still has the kernel:
// the class itself only raises. Names of private members may stand in explicit instantiations.
std::shared_ptr<c10::KernelToken> token_of(const c10::SafeKernelFunction& kernel);
template <auto member>
struct TokenAccess {
  friend std::shared_ptr<c10::KernelToken> token_of(const c10::SafeKernelFunction& kernel) {
    return kernel.*member;
  }
};
template struct TokenAccess<&c10::SafeKernelFunction::token_>;

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
  row.uses = std::make_shared<KernelUses>(token_of(kernel));
  row.origin = place_of(kernel.debug());
  row.raw = true;
  row.source = is_python(row.origin) ? Source::kUser : Source::kVendor;
  row.placement = own ? Placement::kDevice : Placement::kCopied;
  row.kernel =
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<RawKernel>(std::move(kernel)));
  return row;
}

}  // namespace outboard
