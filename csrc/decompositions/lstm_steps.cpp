// aten::mkldnn_rnn_layer and its backward by device kernels, for LSTM. Autograd and second
// derivatives are PyTorch's own for these operators.
//
// A workspace of bytes is oneDNN's. A workspace in the dtype of the values has the layout of
// torch_outboard/kernels/layers/recurrent_steps.cl. The backward runs where its forward ran.
#include "decompositions/lstm_steps.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <tuple>
#include <utility>

#include "dispatch/call_routed.h"
#include "dispatch/fallback_policy.h"
#include "dispatch/router.h"
#include "dispatch/placement.h"
#include "runtime/driver/device.h"
#include "runtime/programs/program.h"

namespace outboard {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Layer = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using LayerGradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

constexpr const char* kSteps = "outboard_layers::lstm_steps";
constexpr const char* kStepsBackward = "outboard_layers::lstm_steps_backward";

bool asks(const char* name) {
  const auto op = c10::Dispatcher::singleton().findSchema({name, ""});
  return op.has_value() && op->typed<bool()>().call();
}

// PyTorch's condition for CPU tensors.
bool computes(c10::ScalarType dtype) {
  static const bool bfloat16 = asks("mkldnn::_is_mkldnn_bf16_supported");
  static const bool float16 = asks("mkldnn::_is_mkldnn_fp16_supported");
  return dtype == at::kFloat || (dtype == at::kBFloat16 && bfloat16) ||
         (dtype == at::kHalf && float16 && !at::GradMode::is_enabled());
}

// Elements of a workspace, for `states` = batch * hidden.
int64_t workspace_size(int64_t steps, int64_t states) { return (6 * steps + 2) * states; }

Tensor states_in(const Tensor& workspace, int64_t from, at::IntArrayRef sizes) {
  return workspace.narrow(0, from, c10::multiply_integers(sizes)).view(sizes);
}

Layer forward(const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh,
              const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& hx, const Tensor& cx,
              bool reverse) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kSteps, "");
  const DevicePlacementScope scope;
  const int64_t steps = input.size(0), batch = input.size(1), hidden = weight_hh.size(1);
  const int64_t states = batch * hidden;
  const Tensor rows = input.reshape({steps * batch, input.size(2)});
  const Tensor gates =
      at::addmm(bias_ih.add(bias_hh), rows, weight_ih.t()).view({steps, batch, 4 * hidden});
  auto [output, workspace] = op.typed<std::tuple<Tensor, Tensor>(
      const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool)>()
                                 .call(gates, weight_hh, hx, cx, reverse);
  const int64_t last_cell = 5 * steps * states;
  Tensor hy = states_in(workspace, workspace_size(steps, states) - states, {batch, hidden}).clone();
  Tensor cy = states_in(workspace, last_cell, {batch, hidden}).clone();
  return {std::move(output), std::move(hy), std::move(cy), std::move(workspace)};
}

bool others_brought_kernels(const Operator& entry) {
  return entry.device_kernels.load(std::memory_order_acquire) == DeviceKernels::kExternal;
}

using StepGradients = std::tuple<Tensor, Tensor, Tensor>;

// The backward kernels as a decomposition, for device kernels disabled after a forward by them.
StepGradients composed_backward(const Tensor& workspace, const Tensor& weight,
                                const OptionalTensor& grad_output, const OptionalTensor& grad_hy,
                                const OptionalTensor& grad_cy, int64_t steps, int64_t batch,
                                bool reverse) {
  const int64_t hidden = weight.size(1), states = batch * hidden;
  const Tensor gates = states_in(workspace, 0, {steps, batch, 4, hidden});
  const Tensor cells = states_in(workspace, 4 * steps * states, {steps + 1, batch, hidden});
  const auto or_zeros = [&](const OptionalTensor& tensor) {
    return tensor.has_value() && tensor->defined() ? *tensor : at::zeros_like(cells[0]);
  };
  Tensor to_hidden = or_zeros(grad_hy);
  Tensor to_cell = or_zeros(grad_cy);
  Tensor grad_gates = at::empty({steps, batch, 4, hidden}, workspace.options());
  for (int64_t s = steps - 1; s >= 0; --s) {
    const int64_t time = reverse ? steps - 1 - s : s;
    if (grad_output.has_value() && grad_output->defined())
      to_hidden = to_hidden + (*grad_output)[time];
    const Tensor input = gates[time].select(1, 0), forget = gates[time].select(1, 1),
                 cell = gates[time].select(1, 2), output = gates[time].select(1, 3);
    const Tensor state = cells[s + 1].tanh();
    to_cell = to_cell + to_hidden * output * (1 - state * state);
    const Tensor all = grad_gates[time];
    all.select(1, 0).copy_(to_cell * cell * input * (1 - input));
    all.select(1, 1).copy_(to_cell * cells[s] * forget * (1 - forget));
    all.select(1, 2).copy_(to_cell * input * (1 - cell * cell));
    all.select(1, 3).copy_(to_hidden * state * output * (1 - output));
    to_hidden = all.view({batch, 4 * hidden}).mm(weight);
    to_cell = to_cell * forget;
  }
  return {std::move(grad_gates), std::move(to_hidden), std::move(to_cell)};
}

StepGradients kernels_backward(const Tensor& workspace, const Tensor& weight,
                               const OptionalTensor& grad_output, const OptionalTensor& grad_hy,
                               const OptionalTensor& grad_cy, int64_t steps, int64_t batch,
                               bool reverse) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kStepsBackward, "");
  return op.typed<decltype(kernels_backward)>().call(workspace, weight, grad_output, grad_hy,
                                                     grad_cy, steps, batch, reverse);
}

LayerGradients backward(const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh,
                        const OptionalTensor& grad_output, const OptionalTensor& grad_hy,
                        const OptionalTensor& grad_cy, bool reverse, const Tensor& workspace) {
  const DevicePlacementScope scope;
  const int64_t steps = input.size(0), batch = input.size(1), hidden = weight_hh.size(1);
  const int64_t states = batch * hidden;
  const auto by_steps = device_runs_layers(input) ? kernels_backward : composed_backward;
  auto [grad_gates, grad_hx, grad_cx] =
      by_steps(workspace, weight_hh, grad_output, grad_hy, grad_cy, steps, batch, reverse);
  const Tensor all = grad_gates.view({steps * batch, 4 * hidden});
  const Tensor turned = all.t();
  Tensor grad_weight_ih = turned.mm(input.reshape({steps * batch, input.size(2)}));
  // Step s read state s; in reverse, the last time was step 0.
  Tensor before = states_in(workspace, (5 * steps + 1) * states, {steps, batch, hidden});
  if (reverse) before = before.flip(0);
  Tensor grad_weight_hh = turned.mm(before.reshape({steps * batch, hidden}));
  Tensor grad_bias = all.sum(0);
  Tensor grad_input = all.mm(weight_ih).view(input.sizes());
  Tensor other_bias = grad_bias.clone();  // each may become a .grad
  return {std::move(grad_input), std::move(grad_weight_ih), std::move(grad_weight_hh),
          std::move(grad_bias),  std::move(other_bias),     std::move(grad_hx),
          std::move(grad_cx)};
}

Layer rnn_layer(const Tensor& input, const Tensor& weight0, const Tensor& weight1,
                const Tensor& weight2, const Tensor& weight3, const Tensor& hx_, const Tensor& cx_,
                bool reverse, at::IntArrayRef batch_sizes, int64_t mode, int64_t hidden_size,
                int64_t num_layers, bool has_biases, bool bidirectional, bool batch_first,
                bool train) {
  const auto has = [&](const Tensor& tensor, at::IntArrayRef sizes) {
    return tensor.device() == input.device() && tensor.scalar_type() == input.scalar_type() &&
           tensor.sizes() == sizes;
  };
  static Operator& entry = router_entry("aten::mkldnn_rnn_layer");
  if (!others_brought_kernels(entry) && mode == kLstmMode && batch_sizes.empty() &&
      input.dim() == 3 && input.numel() > 0) {
    const int64_t batch = input.size(1), gates = 4 * hidden_size;
    if (has(weight0, {gates, input.size(2)}) && has(weight1, {gates, hidden_size}) &&
        has(weight2, {gates}) && has(weight3, {gates}) && has(hx_, {batch, hidden_size}) &&
        has(cx_, {batch, hidden_size}) && device_runs_layers(input)) {
      if (runs_on_device(input.device().index()) || !host_runs_layers(input)) {
        return forward(input, weight0, weight1, weight2, weight3, hx_, cx_, reverse);
      }
    }
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::mkldnn_rnn_layer", "");
  return CallRouted<decltype(rnn_layer)>::call(
      entry, op, input, weight0, weight1, weight2, weight3, hx_, cx_, reverse, batch_sizes, mode,
      hidden_size, num_layers, has_biases, bidirectional, batch_first, train);
}

LayerGradients rnn_layer_backward(const Tensor& input, const Tensor& weight1, const Tensor& weight2,
                                  const Tensor& weight3, const Tensor& weight4, const Tensor& hx_,
                                  const Tensor& cx_tmp, const Tensor& output, const Tensor& hy_,
                                  const Tensor& cy_, const OptionalTensor& grad_output,
                                  const OptionalTensor& grad_hy, const OptionalTensor& grad_cy,
                                  bool reverse, int64_t mode, int64_t hidden_size,
                                  int64_t num_layers, bool has_biases, bool train,
                                  bool bidirectional, at::IntArrayRef batch_sizes, bool batch_first,
                                  const Tensor& workspace) {
  static Operator& entry = router_entry("aten::mkldnn_rnn_layer_backward");
  const bool of_steps = !others_brought_kernels(entry) && workspace.defined() &&
                        workspace.scalar_type() == input.scalar_type();
  if (of_steps) {
    return backward(input, weight1, weight2, grad_output, grad_hy, grad_cy, reverse, workspace);
  }
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::mkldnn_rnn_layer_backward", "");
  return CallRouted<decltype(rnn_layer_backward)>::call(
      entry, op, input, weight1, weight2, weight3, weight4, hx_, cx_tmp, output, hy_, cy_,
      grad_output, grad_hy, grad_cy, reverse, mode, hidden_size, num_layers, has_biases, train,
      bidirectional, batch_sizes, batch_first, workspace);
}

}  // namespace

bool host_runs_layers(const Tensor& input) {
  const c10::DeviceIndex device = input.device().index();
  static Operator& layer = router_entry("aten::mkldnn_rnn_layer");
  static Operator& backward = router_entry("aten::mkldnn_rnn_layer_backward");
  return at::globalContext().hasMKLDNN() && computes(input.scalar_type()) &&
         shares_host_memory(device) && !current_stream_state(device).capturing.load() &&
         is_allowed(layer, Placement::kHost) && is_allowed(backward, Placement::kHost);
}

bool device_runs_layers(const Tensor& input) {
  const c10::DeviceIndex device = input.device().index();
  // Kernels compute in float or double.
  const bool computed = input.scalar_type() == at::kDouble
                            ? (device_properties(device).dtypes & OB_DTYPE_FLOAT64) != 0
                            : input.scalar_type() == at::kFloat ||
                                  input.scalar_type() == at::kHalf ||
                                  input.scalar_type() == at::kBFloat16;
  if (!computed || !runs_code(device) || placement_setting(device) == PlacementSetting::kHost)
    return false;
  ensure_device_kernels();
  static Operator& steps = router_entry(kSteps);
  return steps.kernels.load(std::memory_order_acquire) != nullptr;
}

OUTBOARD_DIRECT("mkldnn_rnn_layer", rnn_layer)
OUTBOARD_DIRECT("mkldnn_rnn_layer_backward", rnn_layer_backward)

}  // namespace outboard
