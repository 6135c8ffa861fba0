// An LSTM layer by device kernels: one product for all inputs, and a launch per time step.
#pragma once

#include <ATen/core/Tensor.h>

namespace outboard {

// LSTM as the `mode` of aten::mkldnn_rnn_layer: oneDNN's kinds of layers are RNN with ReLU, RNN
// with tanh, LSTM, GRU.
constexpr int64_t kLstmMode = 2;

// True if one call of aten::mkldnn_rnn_layer supports a layer of this input: by oneDNN on the host,
// under PyTorch's conditions for CPU tensors, or by device kernels.
bool host_runs_layers(const at::Tensor& input);
bool device_runs_layers(const at::Tensor& input);

}  // namespace outboard
