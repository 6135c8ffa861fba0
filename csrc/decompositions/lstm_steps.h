// A layer of LSTM by device kernels: one product for all inputs, and a launch for each step in
// time.
#pragma once

#include <ATen/core/Tensor.h>

namespace outboard {

// Of oneDNN's kinds of layers (RNN with ReLU, with tanh, LSTM, GRU), which are the `mode` of
// aten::mkldnn_rnn_layer.
constexpr int64_t kLstmMode = 2;

// Whether one call of aten::mkldnn_rnn_layer can be a layer of this input: of oneDNN's kernel on
// the host, under the conditions that PyTorch has for CPU tensors, and of the device's kernels.
bool host_runs_layers(const at::Tensor& input);
bool device_runs_layers(const at::Tensor& input);

}  // namespace outboard
