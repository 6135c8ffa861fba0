// The fused LSTM and GRU cells that PyTorch's recurrent layers call on accelerators, as
// decompositions, since CPU kernels do not exist. The workspaces hold values for the backward, in
// the layout given at each function.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include <optional>
#include <tuple>
#include <vector>

#include "dispatch/router.h"

namespace outboard {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const OptionalTensor& bias) {
  return bias.has_value() && bias->defined() ? gates.add(*bias) : gates;
}

Tensor one_minus(const Tensor& tensor) { return at::rsub(tensor, 1); }

bool given(const OptionalTensor& tensor) { return tensor.has_value() && tensor->defined(); }

// The gates of a tensor of shape (batch, count * hidden).
std::vector<Tensor> gates_in(const Tensor& tensor, int64_t count) {
  TORCH_CHECK(tensor.dim() == 2 && tensor.size(1) % count == 0, "a recurrent cell takes ", count,
              " gates side by side, a tensor of shape (batch, ", count, " * hidden), and got ",
              tensor.sizes());
  std::vector<Tensor> gates = tensor.chunk(count, 1);
  TORCH_CHECK(gates.size() == static_cast<size_t>(count), "a recurrent cell of ", tensor.sizes(),
              " has no gates");
  return gates;
}

// Workspace (batch, 4 * hidden): the activated input, forget, cell and output gates.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                             const Tensor& cx, const OptionalTensor& input_bias,
                                             const OptionalTensor& hidden_bias) {
  const Tensor gates = with_bias(input_gates, input_bias).add(with_bias(hidden_gates, hidden_bias));
  const std::vector<Tensor> parts = gates_in(gates, 4);
  const Tensor input = parts[0].sigmoid();
  const Tensor forget = parts[1].sigmoid();
  const Tensor cell = parts[2].tanh();
  const Tensor output = parts[3].sigmoid();
  Tensor cy = forget.mul(cx).add_(input.mul(cell));
  Tensor hy = output.mul(cy.tanh());
  return {std::move(hy), std::move(cy), at::cat({input, forget, cell, output}, 1)};
}

std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const OptionalTensor& grad_hy,
                                                      const OptionalTensor& grad_cy,
                                                      const Tensor& cx, const Tensor& cy,
                                                      const Tensor& workspace, bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  const std::vector<Tensor> parts = gates_in(workspace, 4);
  const Tensor &input = parts[0], &forget = parts[1], &cell = parts[2], &output = parts[3];
  const Tensor tanh_cy = cy.tanh();
  Tensor grad_cell_state = given(grad_cy) ? *grad_cy : at::zeros_like(cy);
  Tensor grad_output = at::zeros_like(cy);
  if (given(grad_hy)) {
    grad_cell_state = grad_cell_state.add(grad_hy->mul(output).mul(one_minus(tanh_cy.square())));
    grad_output = grad_hy->mul(tanh_cy).mul(output).mul(one_minus(output));
  }
  const Tensor grad_input = grad_cell_state.mul(cell).mul(input).mul(one_minus(input));
  const Tensor grad_forget = grad_cell_state.mul(cx).mul(forget).mul(one_minus(forget));
  const Tensor grad_cell = grad_cell_state.mul(input).mul(one_minus(cell.square()));
  Tensor grad_gates = at::cat({grad_input, grad_forget, grad_cell, grad_output}, 1);
  Tensor grad_bias = has_bias ? grad_gates.sum(0) : Tensor();
  return {std::move(grad_gates), grad_cell_state.mul(forget), std::move(grad_bias)};
}

// Workspace (batch, 5 * hidden): reset gate, update gate, new gate, previous hidden state, and the
// hidden contribution to the new gate.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates,
                                    const Tensor& hx, const OptionalTensor& input_bias,
                                    const OptionalTensor& hidden_bias) {
  const std::vector<Tensor> from_input = gates_in(with_bias(input_gates, input_bias), 3);
  const std::vector<Tensor> from_hidden = gates_in(with_bias(hidden_gates, hidden_bias), 3);
  const Tensor reset = from_input[0].add(from_hidden[0]).sigmoid_();
  const Tensor update = from_input[1].add(from_hidden[1]).sigmoid_();
  const Tensor fresh = from_input[2].add(reset.mul(from_hidden[2])).tanh_();
  Tensor hy = fresh.add(update.mul(hx.sub(fresh)));
  return {std::move(hy), at::cat({reset, update, fresh, hx, from_hidden[2]}, 1)};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& grad_hy,
                                                                     const Tensor& workspace,
                                                                     bool has_bias) {
  const std::vector<Tensor> parts = gates_in(workspace, 5);
  const Tensor &reset = parts[0], &update = parts[1], &fresh = parts[2], &hx = parts[3],
               &hidden_new = parts[4];
  const Tensor grad_update = grad_hy.mul(hx.sub(fresh)).mul(update).mul(one_minus(update));
  const Tensor grad_new = grad_hy.mul(one_minus(update)).mul(one_minus(fresh.square()));
  const Tensor grad_reset = grad_new.mul(hidden_new).mul(reset).mul(one_minus(reset));
  Tensor grad_input_gates = at::cat({grad_reset, grad_update, grad_new}, 1);
  Tensor grad_hidden_gates = at::cat({grad_reset, grad_update, grad_new.mul(reset)}, 1);
  Tensor grad_input_bias = has_bias ? grad_input_gates.sum(0) : Tensor();
  Tensor grad_hidden_bias = has_bias ? grad_hidden_gates.sum(0) : Tensor();
  return {std::move(grad_input_gates), std::move(grad_hidden_gates), grad_hy.mul(update),
          std::move(grad_input_bias), std::move(grad_hidden_bias)};
}

OUTBOARD_ROUTED("_thnn_fused_lstm_cell", lstm_cell)
OUTBOARD_ROUTED("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward)
OUTBOARD_ROUTED("_thnn_fused_gru_cell", gru_cell)
OUTBOARD_ROUTED("_thnn_fused_gru_cell_backward", gru_cell_backward)

}  // namespace
}  // namespace outboard
