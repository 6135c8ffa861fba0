// The time steps of an LSTM layer. A work-group computes ROWS rows of the batch and `chunk` hidden
// values: their part of the product with the hidden weights, then their cells, all in registers. A
// step needs all hidden values of the previous one, so each is a launch. With enough rows for all
// processors, a work-item computes all values of its rows and all steps.
//
// State s precedes step s, and step s computes time t, which decreases in reverse. The workspace
// contains the activated input, forget, cell and output gates (steps, batch, 4, hidden), cell
// states (steps + 1, batch, hidden), and hidden states of the same shape. Needs recurrent_values.cl
// before it.

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

#if HAS_grad_output
#define OF_OUTPUT(load, s, row) +grad_output##load(OUTPUT(s, row) + j)
#else
#define OF_OUTPUT(load, s, row)
#endif

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
      const type to_output = to_hidden[r] OF_OUTPUT(load, s, row[r]);               \
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
