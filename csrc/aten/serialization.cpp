#include "aten/serialization.h"

#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <mutex>
#include <unordered_map>
#include <utility>

namespace outboard {
namespace {

// PyTorch saves metadata as a map from strings to bool, so a pair becomes "outboard:key=value".
constexpr char kPrefix[] = "outboard:";
using SavedMetadata = std::unordered_map<std::string, bool>;

struct Metadata final : public c10::BackendMeta {
  explicit Metadata(TensorMetadata pairs_) : pairs(std::move(pairs_)) {}
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return c10::make_intrusive<Metadata>(pairs);
  }
  const TensorMetadata pairs;
};

void save(const at::Tensor& tensor, SavedMetadata& saved) {
  for (const auto& [key, value] : tensor_metadata(tensor)) {
    saved[kPrefix + key + "=" + value] = true;
  }
}

void load(const at::Tensor& tensor, SavedMetadata& saved) {
  TensorMetadata pairs;
  for (const auto& [text, unused] : saved) {
    const size_t equals = text.find('=');
    if (text.rfind(kPrefix, 0) != 0 || equals == std::string::npos) continue;
    const size_t start = sizeof(kPrefix) - 1;
    pairs[text.substr(start, equals - start)] = text.substr(equals + 1);
  }
  if (!pairs.empty()) set_tensor_metadata(tensor, std::move(pairs));
}

}  // namespace

void set_tensor_metadata(const at::Tensor& tensor, TensorMetadata metadata) {
  TORCH_CHECK_VALUE(tensor.device().type() == c10::DeviceType::PrivateUse1,
                    "metadata can be attached to tensors of this backend, not to one on ",
                    tensor.device());
  for (const auto& [key, value] : metadata) {
    TORCH_CHECK_VALUE(!key.empty() && key.find('=') == std::string::npos, "the metadata key '", key,
                      "' is empty or has a '='; use another name");
  }
  c10::intrusive_ptr<c10::BackendMeta> meta;
  if (!metadata.empty()) meta = c10::make_intrusive<Metadata>(std::move(metadata));
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(meta));
}

TensorMetadata tensor_metadata(const at::Tensor& tensor) {
  const auto* meta = dynamic_cast<Metadata*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr ? meta->pairs : TensorMetadata();
}

void register_metadata_serialization() {
  static std::once_flag once;
  std::call_once(once, [] {
    torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &save, &load);
  });
}

}  // namespace outboard
