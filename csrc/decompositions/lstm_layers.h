// LSTM layers as one call each, by oneDNN or by device kernels.
#pragma once

#include <torch/library.h>

namespace outboard {

// Registers aten::lstm.input in `autograd`, a library for AutogradPrivateUse1, unless another
// library has it. Once, at load.
void register_lstm_layers(torch::Library& autograd);

}  // namespace outboard
