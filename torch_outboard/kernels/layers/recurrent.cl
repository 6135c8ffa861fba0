// Recurrent layers: single cells, and with LSTM undefined all time steps of an LSTM layer.

// Hidden values, and the derivative of an LSTM cell. Values are vectors; the last one may overlap the previous one. Layers narrower than a vector use scalars.

static inline V sigmoid_of_one(const V x) { return (V)1 / ((V)1 + exp(-x)); }

// Loop over hidden values `j`.
#define FOR_VALUES(from, end, VECTOR_BODY, SCALAR_BODY)                                \
  if (hidden >= W) {                                                                   \
    for (ob_index next = (from) + OB_LANE * W; next < (end); next += OB_LOCAL * W) {   \
      const ob_index j = min(next, hidden - W);                                        \
      VECTOR_BODY                                                                      \
    }                                                                                  \
  } else {                                                                             \
    for (ob_index j = (from) + OB_LANE; j < (end); j += OB_LOCAL) {                    \
      SCALAR_BODY                                                                      \
    }                                                                                  \
  }

#if HAS_grad_hy
#define GRAD_HY(type, load, row) grad_hy##load((row) * hidden + j)
#else
#define GRAD_HY(type, load, row) (type)(0)
#endif
#if HAS_grad_cy
#define GRAD_CY(type, load, row) grad_cy##load((row) * hidden + j)
#else
#define GRAD_CY(type, load, row) (type)(0)
#endif

// From `to_output` and `to_cell`, the gradients of the output and of the cell state: `to_state`,
// and the gradients of the gates. `gates`: the first gate in the workspace and in grad_gates;
// `after` and `before`: the states behind and in front of the cell.
#define GRADIENTS_OF_CELL(type, load, store, gates, after, before, tanh_of)            \
  const type one = (type)(1);                                                          \
  const type input = workspace##load((gates) + j);                                     \
  const type forget = workspace##load((gates) + hidden + j);                           \
  const type cell = workspace##load((gates) + 2 * hidden + j);                         \
  const type output = workspace##load((gates) + 3 * hidden + j);                       \
  const type state = tanh_of(after), previous = before;                                \
  const type to_state = to_cell + to_output * output * (one - state * state);          \
  grad_gates##store((gates) + j, to_state *cell *input *(one - input));                \
  grad_gates##store((gates) + hidden + j, to_state *previous *forget *(one - forget)); \
  grad_gates##store((gates) + 2 * hidden + j, to_state *input *(one - cell * cell));   \
  grad_gates##store((gates) + 3 * hidden + j, to_output *state *output *(one - output));

#ifdef LSTM

// LSTM and GRU cells. The gates of a batch row are adjacent, `hidden` values each. Workspaces for
// the backward: (input, forget, cell, output gates) of LSTM cells, (reset, update, new gates,
// previous state, the state's part of the new gate) of GRU cells.

#define FROM_INPUT(load, gates, gate)                            \
  (input_gates##load((row * gates + gate) * hidden + j)          \
       IF_input_bias(+ input_bias##load(gate * hidden + j)))
#define FROM_HIDDEN(load, gates, gate)                           \
  (hidden_gates##load((row * gates + gate) * hidden + j)         \
       IF_hidden_bias(+ hidden_bias##load(gate * hidden + j)))

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

#else

// The time steps of an LSTM layer. A work-group computes ROWS rows of the batch and `chunk` hidden
// values: their part of the product with the hidden weights, then their cells, all in registers. A
// step needs all hidden values of the previous one, so each is a launch. With enough rows for all
// processors, a work-item computes all values of its rows and all steps.
//
// State s precedes step s, and step s computes time t, which decreases in reverse. The workspace
// contains the activated input, forget, cell and output gates (steps, batch, 4, hidden), cell
// states (steps + 1, batch, hidden), and hidden states of the same shape.

#define ROWS 4
#define TIME(s) (reverse ? steps - 1 - (s) : (s))
#define GATE(s, row, gate) (((TIME(s) * batch + (row)) * 4 + (gate)) * hidden)
#define OUTPUT(s, row) ((TIME(s) * batch + (row)) * hidden)
#define CELL(s, row) (cells_at + ((s) * batch + (row)) * hidden)
#define HIDDEN(s, row) (states_at + ((s) * batch + (row)) * hidden)

// Rows of a part of the batch; rows beyond the last repeat it.
#define TAKE_ROWS(part)  \
  ob_index row[ROWS];    \
  for (int r = 0; r < ROWS; ++r) row[r] = min((part)*ROWS + r, batch - 1);

#if !BACKWARD

__kernel void first_states(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(i)
  workspace_store(cells_at + i, cx_load(i));
  workspace_store(states_at + i, hx_load(i));
}

// Transposes weights to (hidden, 4, hidden), by input value. One work-item per cache line.
__kernel void turn_weights(OB_PARAMETERS) {
  OB_BEGIN
  OB_ITEM(item)
  const ob_index all = 4 * hidden, gate = item % all, from = item / all * 16;
  const ob_index end = min(from + 16, hidden);
  for (ob_index k = from; k < end; ++k) turned_store(k * all + gate, weight_load(gate * hidden + k));
}

#define STEP(type, load, store, sigmoid, tanh_of)                                           \
  type sum[ROWS][4];                                                                        \
  _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                                        \
    _Pragma("unroll") for (int gate = 0; gate < 4; ++gate) {                                \
      sum[r][gate] = gates##load(GATE(ob_step, row[r], gate) + j);                          \
    }                                                                                       \
  }                                                                                         \
  for (ob_index k = 0; k < hidden; ++k) {                                                   \
    type weights[4];                                                                        \
    _Pragma("unroll") for (int gate = 0; gate < 4; ++gate) {                                \
      weights[gate] = turned##load((k * 4 + gate) * hidden + j);                            \
    }                                                                                       \
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                                      \
      const type before = (type)(workspace_load(HIDDEN(ob_step, row[r]) + k));              \
      _Pragma("unroll") for (int gate = 0; gate < 4; ++gate) {                              \
        sum[r][gate] += before * weights[gate];                                             \
      }                                                                                     \
    }                                                                                       \
  }                                                                                         \
  _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                                        \
    const type input = sigmoid(sum[r][0]), forget = sigmoid(sum[r][1]);                     \
    const type cell = tanh_of(sum[r][2]), output = sigmoid(sum[r][3]);                      \
    const type state = forget * workspace##load(CELL(ob_step, row[r]) + j) + input * cell;  \
    const type result = output * tanh_of(state);                                            \
    workspace##store(GATE(ob_step, row[r], 0) + j, input);                                  \
    workspace##store(GATE(ob_step, row[r], 1) + j, forget);                                 \
    workspace##store(GATE(ob_step, row[r], 2) + j, cell);                                   \
    workspace##store(GATE(ob_step, row[r], 3) + j, output);                                 \
    workspace##store(CELL(ob_step + 1, row[r]) + j, state);                                 \
    workspace##store(HIDDEN(ob_step + 1, row[r]) + j, result);                              \
    out##store(OUTPUT(ob_step, row[r]) + j, result);                                        \
  }

#else

// The last of `steps + 1` launches computes gradients of the initial states. Those of cell states
// alternate between the halves of `to_cells`, because overlapping vectors reread values.
#define SLOT(turn, row) (((turn) % 2 * batch + (row)) * hidden)

#define STEP(type, load, store, sigmoid, tanh_of)                                   \
  const ob_index s = steps - 1 - ob_step;                                           \
  type to_hidden[ROWS], rest[ROWS], of_cell[ROWS];                                  \
  if (ob_step == 0) {                                                               \
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                              \
      to_hidden[r] = GRAD_HY(type, load, row[r]);                                   \
      of_cell[r] = GRAD_CY(type, load, row[r]);                                     \
    }                                                                               \
  } else {                                                                          \
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                              \
      to_hidden[r] = rest[r] = (type)(0);                                           \
      of_cell[r] = to_cells##load(SLOT(ob_step, row[r]) + j);                       \
    }                                                                               \
    for (ob_index k = 0; k < 4 * hidden; k += 2) {                                  \
      const type even = weight##load(k * hidden + j);                               \
      const type odd = weight##load((k + 1) * hidden + j);                          \
      _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                            \
        to_hidden[r] += (type)(grad_gates_load(GATE(s + 1, row[r], 0) + k)) * even; \
        rest[r] += (type)(grad_gates_load(GATE(s + 1, row[r], 0) + k + 1)) * odd;   \
      }                                                                             \
    }                                                                               \
    _Pragma("unroll") for (int r = 0; r < ROWS; ++r) to_hidden[r] += rest[r];       \
  }                                                                                 \
  _Pragma("unroll") for (int r = 0; r < ROWS; ++r) {                                \
    if (ob_step == steps) {                                                         \
      grad_hx##store(row[r] * hidden + j, to_hidden[r]);                            \
      grad_cx##store(row[r] * hidden + j, of_cell[r]);                              \
    } else {                                                                        \
      const type to_output =                                                        \
          to_hidden[r] IF_grad_output(+ grad_output##load(OUTPUT(s, row[r]) + j));  \
      const type to_cell = of_cell[r];                                              \
      GRADIENTS_OF_CELL(type, load, store, GATE(s, row[r], 0),                      \
                        workspace##load(CELL(s + 1, row[r]) + j),                   \
                        workspace##load(CELL(s, row[r]) + j), tanh_of)              \
      to_cells##store(SLOT(ob_step + 1, row[r]) + j, to_state *forget);             \
    }                                                                               \
  }

#endif

#define VECTOR_STEP STEP(T, _load_vector, _store_vector, ob_sigmoid, ob_tanh)
#define SCALAR_STEP STEP(V, _load, _store, sigmoid_of_one, tanh)

__kernel void step_in_time(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(part) {
    TAKE_ROWS(part / chunks)
    const ob_index from = part % chunks * chunk, end = min(from + chunk, hidden);
    FOR_VALUES(from, end, VECTOR_STEP, SCALAR_STEP)
  }
}

__kernel void all_steps(OB_PARAMETERS) {
  OB_BEGIN
  OB_FOR_GROUPS(part) {
    TAKE_ROWS(part)
    for (ob_index step = 0; step < steps + BACKWARD; ++step) {
      const ob_index ob_step = step;
      FOR_VALUES(0, hidden, VECTOR_STEP, SCALAR_STEP)
      OB_BARRIER
    }
  }
}

#endif
