// LSTM layers as one call of aten::mkldnn_rnn_layer each, by oneDNN on the device's memory or by
// device kernels (lstm_steps.cpp).
//
// PyTorch does that only for CPU tensors. Its decomposition for other devices has a cell per time
// step, which is many small kernels. On CPU only LSTM has such a form.
#include "decompositions/lstm_steps.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/mkldnn_rnn_layer.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "dispatch/call_routed.h"
#include "dispatch/fallback_policy.h"
#include "dispatch/registration.h"
#include "dispatch/router.h"
#include "dispatch/placement.h"
#include "runtime/programs/program.h"

namespace outboard {
namespace {

using at::Tensor;
using at::TensorList;
using Outputs = std::tuple<Tensor, Tensor, Tensor>;

constexpr const char* kName = "aten::lstm.input";
constexpr int64_t kGates = 4;

Operator& entry() {
  static Operator& found = router_entry(kName);
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

Outputs choose(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
               int64_t num_layers, double dropout, bool train, bool bidirectional,
               bool batch_first) {
  const bool one_call =
      is_plain(input, hx, params, has_biases, num_layers, bidirectional, batch_first) &&
      takes_one_call(input);
  return one_call ? layers(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                           batch_first)
                  : at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train,
                                     bidirectional, batch_first);
}

bool others_brought_kernels() {
  return entry().device_kernels.load(std::memory_order_acquire) == DeviceKernels::kExternal;
}

// Without autograd.
Outputs lstm_dense(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                   int64_t num_layers, double dropout, bool train, bool bidirectional,
                   bool batch_first) {
  if (C10_LIKELY(!others_brought_kernels())) {
    return choose(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                  batch_first);
  }
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::lstm", "input");
  return CallRouted<decltype(lstm_dense)>::call(entry(), op, input, hx, params, has_biases,
                                                num_layers, dropout, train, bidirectional,
                                                batch_first);
}

// Derivatives are those of the called operators. So external kernels serve only calls without
// derivatives, as for every composite operator.
Outputs lstm_with_autograd(const Tensor& input, TensorList hx, TensorList params, bool has_biases,
                           int64_t num_layers, double dropout, bool train, bool bidirectional,
                           bool batch_first) {
  if (C10_LIKELY(!others_brought_kernels())) {
    return choose(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                  batch_first);
  }
  const auto needs_grad = [](const Tensor& tensor) { return tensor.requires_grad(); };
  if (at::GradMode::is_enabled() &&
      (needs_grad(input) || std::any_of(hx.begin(), hx.end(), needs_grad) ||
       std::any_of(params.begin(), params.end(), needs_grad))) {
    return at::native::lstm(input, hx, params, has_biases, num_layers, dropout, train,
                            bidirectional, batch_first);
  }
  at::AutoDispatchBelowADInplaceOrView guard;
  return lstm_dense(input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
                    batch_first);
}

}  // namespace

void register_lstm_layers(torch::Library& autograd) {
  YieldingLibrary(autograd, c10::DispatchKey::AutogradPrivateUse1)
      .impl("lstm.input", TORCH_FN(lstm_with_autograd));
}

OUTBOARD_DIRECT("lstm.input", lstm_dense)

}  // namespace outboard
