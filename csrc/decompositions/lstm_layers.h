// LSTM layers as one call each, of oneDNN or of device kernels.
#pragma once

#include <torch/library.h>

namespace outboard {

// Registers aten::lstm.input in `autograd`, a library for AutogradPrivateUse1, unless another
// library has. Once, at load.
void register_lstm_layers(torch::Library& autograd);

}  // namespace outboard
