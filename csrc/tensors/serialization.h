// Strings that users attach to a tensor, saved and loaded with it by torch.save and torch.load.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "runtime/export.h"

namespace outboard {

using TensorMetadata = std::map<std::string, std::string>;

// Saves and loads a vendor's c10::BackendMeta beside the strings. All added pairs of functions are
// called, and the pair that was registered with PyTorch. `save` adds entries, `load` makes the
// BackendMeta from its entries; keys starting with "outboard:" are reserved.
using SaveMetadata = std::function<void(const at::Tensor&, std::unordered_map<std::string, bool>&)>;
using LoadMetadata = SaveMetadata;
OUTBOARD_API void add_metadata_serialization(SaveMetadata save, LoadMetadata load);

// Replaces the metadata of a strided tensor of the device. Keys are not empty and have no '='.
// Raises where the tensor carries another library's BackendMeta.
OUTBOARD_API void set_tensor_metadata(const at::Tensor& tensor, TensorMetadata metadata);
// Empty if there is none.
OUTBOARD_API TensorMetadata tensor_metadata(const at::Tensor& tensor);

// Takes PyTorch's one slot for functions that save and load metadata; once. The previous holder's
// functions are still called. The slot is taken only when strings are attached, when a pair is
// added, and before a storage of the device is loaded: before that, a vendor's
// TensorBackendMetaRegistry, which raises for a taken slot, can use it.
OUTBOARD_API void take_metadata_slot();

}  // namespace outboard
