// Strings that users attach to a tensor and that travel with it through torch.save.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "runtime/export.h"

namespace outboard {

using TensorMetadata = std::map<std::string, std::string>;

// Makes a vendor's own c10::BackendMeta travel through torch.save and torch.load, beside the kit's
// strings: calls all pairs that were added, and the one that was registered with PyTorch. `save`
// adds entries for what it knows of, `load` makes the BackendMeta of those it knows; keys starting
// with "outboard:" are the kit's.
using SaveMetadata = std::function<void(const at::Tensor&, std::unordered_map<std::string, bool>&)>;
using LoadMetadata = SaveMetadata;
OUTBOARD_API void add_metadata_serialization(SaveMetadata save, LoadMetadata load);

// Replaces the metadata of a strided tensor of the device. Keys are not empty and have no '='.
// Raises where the tensor carries another library's BackendMeta.
OUTBOARD_API void set_tensor_metadata(const at::Tensor& tensor, TensorMetadata metadata);
// Empty if there is none.
OUTBOARD_API TensorMetadata tensor_metadata(const at::Tensor& tensor);

// Takes PyTorch's one slot for functions that save and load metadata; once. Whoever held it is
// called from there. Until the kit needs the slot it is free for a vendor's
// TensorBackendMetaRegistry, which raises where the slot is taken: so it is taken when strings
// are attached, when a pair is added, and before a storage of the device is loaded.
OUTBOARD_API void take_metadata_slot();

}  // namespace outboard
