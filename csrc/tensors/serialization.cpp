#include "tensors/serialization.h"

#include <torch/csrc/jit/serialization/pickler_helper.h>

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/global.h"

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

using Pair = std::pair<SaveMetadata, LoadMetadata>;

// Pairs of vendors. The list is replaced, never changed, since readers may hold it.
struct Added {
  std::shared_ptr<const std::vector<Pair>> pairs = std::make_shared<const std::vector<Pair>>();
};

std::shared_ptr<const std::vector<Pair>> added_pairs() { return Locked<Added>()->pairs; }

void save(const at::Tensor& tensor, SavedMetadata& saved) {
  for (const auto& [save_theirs, load_theirs] : *added_pairs()) save_theirs(tensor, saved);
  for (const auto& [key, value] : tensor_metadata(tensor)) {
    saved[kPrefix + key + "=" + value] = true;
  }
}

void load(const at::Tensor& tensor, SavedMetadata& saved) {
  TensorMetadata ours;
  SavedMetadata theirs;
  for (const auto& [text, value] : saved) {
    if (text.rfind(kPrefix, 0) != 0) {
      theirs.emplace(text, value);
      continue;
    }
    const size_t equals = text.find('=');
    if (equals == std::string::npos) continue;
    const size_t start = sizeof(kPrefix) - 1;
    ours[text.substr(start, equals - start)] = text.substr(equals + 1);
  }
  // A tensor has room for one metadata object, and some vendors attach theirs to any tensor. So
  // their functions are not called for tensors that were saved with strings.
  if (!ours.empty()) {
    set_tensor_metadata(tensor, std::move(ours));
  } else if (!theirs.empty()) {
    for (const auto& [save_theirs, load_theirs] : *added_pairs()) load_theirs(tensor, theirs);
  }
}

void add_pair(SaveMetadata save_theirs, LoadMetadata load_theirs) {
  const Locked<Added> added;
  auto pairs = std::make_shared<std::vector<Pair>>(*added->pairs);
  pairs->emplace_back(std::move(save_theirs), std::move(load_theirs));
  added->pairs = std::move(pairs);
}

}  // namespace

void add_metadata_serialization(SaveMetadata save_theirs, LoadMetadata load_theirs) {
  TORCH_CHECK_VALUE(save_theirs && load_theirs,
                    "metadata needs a function that saves and one that "
                    "loads, and one of them is missing");
  add_pair(std::move(save_theirs), std::move(load_theirs));
  take_metadata_slot();
}

void set_tensor_metadata(const at::Tensor& tensor, TensorMetadata metadata) {
  TORCH_CHECK_VALUE(tensor.device().type() == c10::DeviceType::PrivateUse1,
                    "metadata can be attached to tensors of this backend, not to one on ",
                    tensor.device());
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided,
                    "metadata can be attached to strided tensors, ", "not to one of layout ",
                    tensor.layout(), ", which is saved without it");
  c10::BackendMeta* present = tensor.unsafeGetTensorImpl()->get_backend_meta();
  TORCH_CHECK(
      present == nullptr || dynamic_cast<Metadata*>(present) != nullptr,
      "the tensor carries metadata that the vendor of the device attached, and a tensor has "
      "room for one; keep yours beside the tensor");
  for (const auto& [key, value] : metadata) {
    TORCH_CHECK_VALUE(!key.empty() && key.find('=') == std::string::npos, "the metadata key '", key,
                      "' is empty or has a '='; use another name");
  }
  c10::intrusive_ptr<c10::BackendMeta> meta;
  if (!metadata.empty()) {
    take_metadata_slot();
    meta = c10::make_intrusive<Metadata>(std::move(metadata));
  }
  tensor.unsafeGetTensorImpl()->set_backend_meta(std::move(meta));
}

TensorMetadata tensor_metadata(const at::Tensor& tensor) {
  const auto* meta = dynamic_cast<Metadata*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr ? meta->pairs : TensorMetadata();
}

void take_metadata_slot() {
  static std::once_flag once;
  std::call_once(once, [] {
    // The functions of the previous holder are still called.
    auto& slot =
        torch::jit::GetBackendMetaSerialization()[static_cast<int>(c10::DeviceType::PrivateUse1)];
    if (slot.has_value()) {
      add_pair(slot->first, slot->second);
      slot.reset();
    }
    torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &save, &load);
  });
}

}  // namespace outboard
