// LSTM and GRU cells. The gates of a batch row are adjacent, `hidden` values each. Workspaces for
// the backward: (input, forget, cell, output gates) of LSTM cells, (reset, update, new gates,
// previous state, the state's part of the new gate) of GRU cells.
//
// Needs recurrent_values.cl before it.

#if HAS_input_bias
#define INPUT_BIAS(load, j) +input_bias##load(j)
#else
#define INPUT_BIAS(load, j)
#endif
#if HAS_hidden_bias
#define HIDDEN_BIAS(load, j) +hidden_bias##load(j)
#else
#define HIDDEN_BIAS(load, j)
#endif
#define FROM_INPUT(load, gates, gate)                            \
  (input_gates##load((row * gates + gate) * hidden + j)          \
       INPUT_BIAS(load, gate *hidden + j))
#define FROM_HIDDEN(load, gates, gate)                           \
  (hidden_gates##load((row * gates + gate) * hidden + j)         \
       HIDDEN_BIAS(load, gate *hidden + j))

#if LSTM && !BACKWARD

#define LSTM_GATE(load, gate) (FROM_INPUT(load, 4, gate) + FROM_HIDDEN(load, 4, gate))
#define CELL(type, load, store, sigmoid, tanh_of)                          \
  const type input = sigmoid(LSTM_GATE(load, 0));                          \
  const type forget = sigmoid(LSTM_GATE(load, 1));                         \
  const type cell = tanh_of(LSTM_GATE(load, 2));                           \
  const type output = sigmoid(LSTM_GATE(load, 3));                         \
  const type state = forget * cx##load(row * hidden + j) + input * cell;   \
  cy##store(row * hidden + j, state);                                      \
  hy##store(row * hidden + j, output *tanh_of(state));                     \
  workspace##store((row * 4 + 0) * hidden + j, input);                     \
  workspace##store((row * 4 + 1) * hidden + j, forget);                    \
  workspace##store((row * 4 + 2) * hidden + j, cell);                      \
  workspace##store((row * 4 + 3) * hidden + j, output);

#elif LSTM

#define CELL(type, load, store, sigmoid, tanh_of)                                      \
  const type to_output = GRAD_HY(type, load, row), to_cell = GRAD_CY(type, load, row); \
  GRADIENTS_OF_CELL(type, load, store, row * 4 * hidden,                               \
                    cy##load(row * hidden + j), cx##load(row * hidden + j), tanh_of)   \
  grad_cx##store(row * hidden + j, to_state *forget);

#elif !BACKWARD

#define CELL(type, load, store, sigmoid, tanh_of)                                     \
  const type reset = sigmoid(FROM_INPUT(load, 3, 0) + FROM_HIDDEN(load, 3, 0));       \
  const type update = sigmoid(FROM_INPUT(load, 3, 1) + FROM_HIDDEN(load, 3, 1));      \
  const type of_hidden = FROM_HIDDEN(load, 3, 2);                                     \
  const type fresh = tanh_of(FROM_INPUT(load, 3, 2) + reset * of_hidden);             \
  const type previous = hx##load(row * hidden + j);                                   \
  hy##store(row * hidden + j, fresh + update * (previous - fresh));                   \
  workspace##store((row * 5 + 0) * hidden + j, reset);                                \
  workspace##store((row * 5 + 1) * hidden + j, update);                               \
  workspace##store((row * 5 + 2) * hidden + j, fresh);                                \
  workspace##store((row * 5 + 3) * hidden + j, previous);                             \
  workspace##store((row * 5 + 4) * hidden + j, of_hidden);

#else

#define CELL(type, load, store, sigmoid, tanh_of)                                     \
  const type one = (type)(1);                                                         \
  const type reset = workspace##load((row * 5 + 0) * hidden + j);                     \
  const type update = workspace##load((row * 5 + 1) * hidden + j);                    \
  const type fresh = workspace##load((row * 5 + 2) * hidden + j);                     \
  const type previous = workspace##load((row * 5 + 3) * hidden + j);                  \
  const type of_hidden = workspace##load((row * 5 + 4) * hidden + j);                 \
  const type to_state = grad_hy##load(row * hidden + j);                              \
  const type to_update = to_state * (previous - fresh) * update * (one - update);     \
  const type to_new = to_state * (one - update) * (one - fresh * fresh);              \
  const type to_reset = to_new * of_hidden * reset * (one - reset);                   \
  grad_input_gates##store((row * 3 + 0) * hidden + j, to_reset);                      \
  grad_input_gates##store((row * 3 + 1) * hidden + j, to_update);                     \
  grad_input_gates##store((row * 3 + 2) * hidden + j, to_new);                        \
  grad_hidden_gates##store((row * 3 + 0) * hidden + j, to_reset);                     \
  grad_hidden_gates##store((row * 3 + 1) * hidden + j, to_update);                    \
  grad_hidden_gates##store((row * 3 + 2) * hidden + j, to_new *reset);                \
  grad_hx##store(row * hidden + j, to_state *update);

#endif

__kernel void cell(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(row) {
    FOR_VALUES(0, hidden, CELL(T, _load_vector, _store_vector, ob_sigmoid, ob_tanh),
               CELL(V, _load, _store, sigmoid_of_one, tanh))
  }
}

#if BACKWARD
// Gradients of biases: sums over the batch.
__kernel void sums_of_columns(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(j)
#if LSTM && HAS_grad_bias
  V sum = 0;
  for (ob_index row = 0; row < batch; ++row) sum += (V)grad_gates_load(row * ob_items + j);
  grad_bias_store(j, sum);
#elif HAS_grad_input_bias
  V of_input = 0, of_hidden = 0;
  for (ob_index row = 0; row < batch; ++row) {
    of_input += (V)grad_input_gates_load(row * ob_items + j);
    of_hidden += (V)grad_hidden_gates_load(row * ob_items + j);
  }
  grad_input_bias_store(j, of_input);
  grad_hidden_bias_store(j, of_hidden);
#endif
}
#endif
