// Strings that users attach to a tensor and that travel with it through torch.save.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "runtime/export.h"

namespace outboard {

using TensorMetadata = std::map<std::string, std::string>;

// Replaces the metadata of a tensor of the device. Keys are not empty and have no '='.
OUTBOARD_API void set_tensor_metadata(const at::Tensor& tensor, TensorMetadata metadata);
// Empty if there is none.
OUTBOARD_API TensorMetadata tensor_metadata(const at::Tensor& tensor);

// Tells PyTorch's serialization about metadata; once.
OUTBOARD_API void register_metadata_serialization();

}  // namespace outboard
