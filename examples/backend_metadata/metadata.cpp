// A vendor's metadata: the tiling of a tensor in the memory of the device. torch.save stores it and
// torch.load restores it.
#include <torch/csrc/jit/serialization/pickler_helper.h>
#include <torch/library.h>

#include <string>
#include <unordered_map>

namespace {

struct Tiling final : c10::BackendMeta {
  explicit Tiling(int64_t edge) : edge(edge) {}
  // Called for detach(), .data and the like; without it both tensors would share one object.
  c10::intrusive_ptr<c10::BackendMeta> clone(
      const c10::intrusive_ptr<c10::BackendMeta>&) const override {
    return c10::make_intrusive<Tiling>(edge);
  }
  int64_t edge;
};

// 0 without metadata.
int64_t tiling(const at::Tensor& tensor) {
  const auto* meta = dynamic_cast<Tiling*>(tensor.unsafeGetTensorImpl()->get_backend_meta());
  return meta != nullptr ? meta->edge : 0;
}

void set_tiling(const at::Tensor& tensor, int64_t edge) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Tiling>(edge));
}

// PyTorch saves a map from strings to bool, so its keys must hold everything.
constexpr char kPrefix[] = "tiling:";

void save(const at::Tensor& tensor, std::unordered_map<std::string, bool>& saved) {
  if (tiling(tensor) != 0) saved[kPrefix + std::to_string(tiling(tensor))] = true;
}

void load(const at::Tensor& tensor, std::unordered_map<std::string, bool>& saved) {
  for (const auto& [key, value] : saved) {
    if (key.rfind(kPrefix, 0) == 0) set_tiling(tensor, std::stoll(key.substr(sizeof(kPrefix) - 1)));
  }
}

TORCH_LIBRARY(metadata_example, library) {
  library.def("tiling(Tensor tensor) -> int", &tiling);
  library.def("set_tiling(Tensor tensor, int edge) -> ()", &set_tiling);
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &save, &load);
}

}  // namespace
