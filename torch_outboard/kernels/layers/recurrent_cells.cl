// LSTM and GRU cells. The gates of a batch row are adjacent, `hidden` values each. Workspaces for
// the backward: (input, forget, cell, output gates) of LSTM cells, (reset, update, new gates,
// previous state, the state's part of the new gate) of GRU cells.
//
// Rows are processed in vectors; the last one may overlap the previous one. Rows shorter than a
// vector use scalars.

static inline V sigmoid_of_one(const V x) { return (V)1 / ((V)1 + exp(-x)); }

#define OB_FOR_ROW(VECTOR_BODY, SCALAR_BODY)                                   \
  OB_FOR_GROUPS(row) {                                                         \
    if (hidden >= W) {                                                         \
      for (ob_index next = OB_LANE * W; next < hidden; next += OB_LOCAL * W) { \
        const ob_index j = min(next, hidden - W);                              \
        VECTOR_BODY                                                            \
      }                                                                        \
    } else {                                                                   \
      for (ob_index j = OB_LANE; j < hidden; j += OB_LOCAL) {                  \
        SCALAR_BODY                                                            \
      }                                                                        \
    }                                                                          \
  }

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

#if HAS_grad_hy
#define GRAD_HY(type, load) grad_hy##load(row * hidden + j)
#else
#define GRAD_HY(type, load) (type)(0)
#endif
#if HAS_grad_cy
#define GRAD_CY(type, load) grad_cy##load(row * hidden + j)
#else
#define GRAD_CY(type, load) (type)(0)
#endif
#define CELL(type, load, store, sigmoid, tanh_of)                                     \
  const type one = (type)(1);                                                         \
  const type input = workspace##load((row * 4 + 0) * hidden + j);                     \
  const type forget = workspace##load((row * 4 + 1) * hidden + j);                    \
  const type cell = workspace##load((row * 4 + 2) * hidden + j);                      \
  const type output = workspace##load((row * 4 + 3) * hidden + j);                    \
  const type state = tanh_of(cy##load(row * hidden + j));                             \
  const type to_output = GRAD_HY(type, load);                                         \
  const type to_state = GRAD_CY(type, load) + to_output * output * (one - state * state); \
  grad_gates##store((row * 4 + 0) * hidden + j, to_state *cell *input *(one - input)); \
  grad_gates##store((row * 4 + 1) * hidden + j,                                       \
                    to_state *cx##load(row * hidden + j) * forget * (one - forget));  \
  grad_gates##store((row * 4 + 2) * hidden + j, to_state *input *(one - cell * cell)); \
  grad_gates##store((row * 4 + 3) * hidden + j, to_output *state *output *(one - output)); \
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
  OB_FOR_ROW(CELL(T, _load_vector, _store_vector, ob_sigmoid, ob_tanh),
             CELL(V, _load, _store, sigmoid_of_one, tanh))
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
