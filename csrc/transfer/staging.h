// Tensors of devices whose memory the host cannot touch, read into and written from host memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "runtime/streams/stream.h"

namespace outboard {

// The content of `source` (with at least one element) in a CPU tensor of the same sizes, dtype and
// conj and neg bits; strides may differ. Waits for `stream`, a stream of the tensor's device.
at::Tensor read_to_host(const at::Tensor& source, StreamState& stream);

// Writes the CPU tensor `source`, broadcast and converted, into `destination`. Bytes between the
// elements of `destination` keep their values; where a list of copies would be too long for the
// driver, they are read and written back, so another stream must not write them meanwhile. Waits
// for `stream`, a stream of the destination's device.
void write_from_host(const at::Tensor& destination, const at::Tensor& source, StreamState& stream);

}  // namespace outboard
