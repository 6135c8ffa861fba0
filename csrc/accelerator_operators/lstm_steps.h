// A layer of LSTM by device kernels: one product for all inputs, and a launch for each step in
// time.
#pragma once

#include <ATen/core/Tensor.h>

#include "dispatch/measured_calls.h"

namespace outboard {

// Of oneDNN's kinds of layers (RNN with ReLU, with tanh, LSTM, GRU), which are the `mode` of
// aten::mkldnn_rnn_layer.
constexpr int64_t kLstmMode = 2;

// Whether one call of aten::mkldnn_rnn_layer can be a layer of this input: of oneDNN's kernel on
// the host, under the conditions that PyTorch has for CPU tensors, and of the device's kernels.
bool host_runs_layers(const at::Tensor& input);
bool device_runs_layers(const at::Tensor& input);
// Where both can, and where it is weighed against cells: whether the device's way is taken. `calls`
// has their times if they are measured.
bool weighs_for_device(const at::Tensor& input, MeasuredCalls* calls = nullptr);

}  // namespace outboard
