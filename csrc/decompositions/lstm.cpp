// LSTM layers as one call of aten::mkldnn_rnn_layer each, by oneDNN on the device's memory or by
// device kernels.
//
// PyTorch does that only for CPU tensors. Its decomposition for other devices has a cell per time
// step, which is many small kernels. On CPU only LSTM has such a form.
#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_thnn_fused_lstm_cell_backward_impl.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "dispatch/call_routed.h"
#include "dispatch/fallback_policy.h"
#include "dispatch/placement.h"
#include "dispatch/registration.h"
#include "dispatch/router.h"
#include "runtime/driver/device.h"
#include "runtime/programs/program.h"

namespace outboard {

// ---- aten::mkldnn_rnn_layer and its backward by device kernels, for LSTM: one product for all
// inputs, and a launch per time step. Derivatives of all orders are PyTorch's for these operators.
//
// A workspace of bytes is oneDNN's. A workspace in the dtype of the values has the layout of
// torch_outboard/kernels/layers/recurrent.cl. The backward runs where its forward ran.

namespace {

using at::Tensor;
using at::TensorList;
using OptionalTensor = std::optional<Tensor>;
using Layer = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using LayerGradients = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>;

// The `mode` of aten::mkldnn_rnn_layer; oneDNN's are RNN with ReLU, RNN with tanh, LSTM, GRU.
constexpr int64_t kLstmMode = 2;
constexpr int64_t kGates = 4;
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

// Whether oneDNN runs layers of this input on the host: PyTorch's conditions for CPU tensors.
bool host_runs_layers(const Tensor& input) {
  const c10::DeviceIndex device = input.device().index();
  static Operator& layer = router_entry("aten::mkldnn_rnn_layer");
  static Operator& backward = router_entry("aten::mkldnn_rnn_layer_backward");
  return at::globalContext().hasMKLDNN() && computes(input.scalar_type()) &&
         shares_host_memory(device) && !current_stream_state(device).capturing.load() &&
         is_allowed(layer, Placement::kHost) && is_allowed(backward, Placement::kHost);
}

// Whether device kernels run layers of this input.
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

// Elements of a workspace, for `states` = batch * hidden.
int64_t workspace_size(int64_t steps, int64_t states) { return (6 * steps + 2) * states; }

Tensor states_in(const Tensor& workspace, int64_t from, at::IntArrayRef sizes) {
  return workspace.narrow(0, from, c10::multiply_integers(sizes)).view(sizes);
}

Layer forward(const Tensor& input, const Tensor& weight_ih, const Tensor& weight_hh,
              const Tensor& bias_ih, const Tensor& bias_hh, const Tensor& hx, const Tensor& cx,
              bool reverse) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kSteps, "");
  const PlacementScope scope(PlacementSetting::kDevice);
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
  const Tensor gates = states_in(workspace, 0, {steps, batch, 4 * hidden});
  const Tensor cells = states_in(workspace, 4 * steps * states, {steps + 1, batch, hidden});
  const auto or_zeros = [&](const OptionalTensor& tensor) {
    return tensor.has_value() && tensor->defined() ? *tensor : at::zeros_like(cells[0]);
  };
  Tensor to_hidden = or_zeros(grad_hy);
  Tensor to_cell = or_zeros(grad_cy);
  Tensor grad_gates = at::empty({steps, batch, 4 * hidden}, workspace.options());
  for (int64_t s = steps - 1; s >= 0; --s) {
    const int64_t time = reverse ? steps - 1 - s : s;
    if (grad_output.has_value() && grad_output->defined())
      to_hidden = to_hidden + (*grad_output)[time];
    auto [of_gates, before, bias] = at::_thnn_fused_lstm_cell_backward_impl(
        to_hidden, to_cell, cells[s], cells[s + 1], gates[time], /*has_bias=*/false);
    grad_gates[time].copy_(of_gates);
    to_hidden = of_gates.mm(weight);
    to_cell = std::move(before);
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
  const PlacementScope scope(PlacementSetting::kDevice);
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

// ---- aten::lstm.input

using Outputs = std::tuple<Tensor, Tensor, Tensor>;

Operator& entry() {
  static Operator& found = router_entry("aten::lstm.input");
  return found;
}

bool has_shape(const Tensor& tensor, at::IntArrayRef shape) {
  return !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() && tensor.sizes() == shape;
}

// A layer reads memory by these sizes, so all are checked. Mismatches, projections, wrapped tensors
// and other layouts use PyTorch's decomposition.
bool is_plain(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
              int64_t num_layers, bool bidirectional, bool batch_first) {
  const auto alike = [&](const Tensor& tensor) {
    return tensor.defined() && tensor.is_privateuseone() && tensor.layout() == at::kStrided &&
           tensor.device() == input.device() && tensor.scalar_type() == input.scalar_type() &&
           !tensor.key_set().has_any(
               c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::ZeroTensor}));
  };
  if (hx.size() != 2 || num_layers < 1 || !alike(input) || input.dim() != 3 ||
      input.unsafeGetTensorImpl()->has_symbolic_sizes_strides() || input.numel() == 0 ||
      !std::all_of(hx.begin(), hx.end(), alike) ||
      !std::all_of(params.begin(), params.end(), alike) || hx[0].dim() != 3) {
    return false;
  }
  const int64_t directions = bidirectional ? 2 : 1;
  const int64_t hidden = hx[0].sym_size(2).expect_int();
  const int64_t batch = input.size(batch_first ? 0 : 1);
  const std::array<int64_t, 3> state = {num_layers * directions, batch, hidden};
  if (hidden == 0 || !has_shape(hx[0], state) || !has_shape(hx[1], state)) return false;
  const size_t each = has_biases ? 4 : 2;
  if (params.size() != each * static_cast<size_t>(num_layers * directions)) return false;
  for (size_t i = 0; i < params.size(); i += each) {
    const bool first = i < each * static_cast<size_t>(directions);
    const int64_t inputs = first ? input.size(2) : directions * hidden;
    if (!has_shape(params[i], {kGates * hidden, inputs}) ||
        !has_shape(params[i + 1], {kGates * hidden, hidden})) {
      return false;
    }
    for (size_t bias = i + 2; bias < i + each; ++bias) {
      if (!has_shape(params[bias], {kGates * hidden})) return false;
    }
  }
  return true;
}

// True if each layer is one call.
bool takes_one_call(const Tensor& input) {
  if (!at::globalContext().userEnabledMkldnn() ||
      at::autocast::is_autocast_enabled(at::kPrivateUse1)) {
    return false;
  }
  return host_runs_layers(input) ||
         (device_runs_layers(input) && runs_on_device(input.device().index()));
}

Outputs layers(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
               int64_t num_layers, double dropout, bool train, bool bidirectional,
               bool batch_first) {
  const int64_t directions = bidirectional ? 2 : 1;
  const int64_t hidden = hx[0].size(2);
  const Tensor hidden_states = hx[0].contiguous();
  const Tensor cell_states = hx[1].contiguous();
  // The operator requires biases; zeros stand for none.
  const Tensor zeros = has_biases ? Tensor() : at::zeros({kGates * hidden}, input.options());
  const int64_t each = has_biases ? 4 : 2;
  // (length, batch, features) below.
  Tensor values = (batch_first ? input.transpose(0, 1) : input).contiguous();
  std::vector<Tensor> last_hidden;
  std::vector<Tensor> last_cells;
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const int64_t index = layer * directions + direction;
      const TensorList own =
          params.slice(static_cast<size_t>(index * each), static_cast<size_t>(each));
      auto [output, hy, cy, workspace] = at::mkldnn_rnn_layer(
          values, own[0], own[1], has_biases ? own[2] : zeros, has_biases ? own[3] : zeros,
          hidden_states[index], cell_states[index], /*reverse=*/direction == 1, /*batch_sizes=*/{},
          kLstmMode, hidden, num_layers, has_biases, bidirectional, batch_first, train);
      outputs.push_back(std::move(output));
      last_hidden.push_back(std::move(hy));
      last_cells.push_back(std::move(cy));
    }
    values = directions == 1 ? outputs[0] : at::cat(outputs, -1);
    if (dropout != 0 && train && layer < num_layers - 1)
      values = at::dropout(values, dropout, true);
  }
  return {batch_first ? values.transpose(0, 1) : values, at::stack(last_hidden, 0),
          at::stack(last_cells, 0)};
}

Outputs lstm_dense(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                   int64_t num_layers, double dropout, bool train, bool bidirectional,
                   bool batch_first) {
  if (C10_UNLIKELY(others_brought_kernels(entry()))) {
    static const c10::OperatorHandle op =
        c10::Dispatcher::singleton().findSchemaOrThrow("aten::lstm", "input");
    return CallRouted<decltype(lstm_dense)>::call(entry(), op, input, hx, params, has_biases,
                                                  num_layers, dropout, train, bidirectional,
                                                  batch_first);
  }
  const bool one_call =
      is_plain(input, hx, params, has_biases, num_layers, bidirectional, batch_first) &&
      takes_one_call(input);
  return one_call ? layers(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                           batch_first)
                  : at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train,
                                     bidirectional, batch_first);
}

// Derivatives are those of the called operators. So external kernels serve only calls without
// derivatives, as for every composite operator.
Outputs lstm_with_autograd(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                           int64_t num_layers, double dropout, bool train, bool bidirectional,
                           bool batch_first) {
  const bool external = others_brought_kernels(entry());
  const auto needs_grad = [](const Tensor& tensor) { return tensor.requires_grad(); };
  if (external && at::GradMode::is_enabled() &&
      (needs_grad(input) || std::any_of(hx.begin(), hx.end(), needs_grad) ||
       std::any_of(params.begin(), params.end(), needs_grad))) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train,
                            bidirectional, batch_first);
  }
  std::optional<at::AutoDispatchBelowADInplaceOrView> guard;
  if (external) guard.emplace();
  return lstm_dense(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                    batch_first);
}

}  // namespace

void register_lstm_layers(torch::Library& autograd) {
  YieldingLibrary(autograd, c10::DispatchKey::AutogradPrivateUse1)
      .impl("lstm.input", TORCH_FN(lstm_with_autograd));
}

OUTBOARD_DIRECT("mkldnn_rnn_layer", rnn_layer)
OUTBOARD_DIRECT("mkldnn_rnn_layer_backward", rnn_layer_backward)
OUTBOARD_DIRECT("lstm.input", lstm_dense)

}  // namespace outboard
