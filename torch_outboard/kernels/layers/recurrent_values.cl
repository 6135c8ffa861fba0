// Hidden values of recurrent layers, and the derivative of an LSTM cell. Values are vectors; the last
// one may overlap the previous one. Layers narrower than a vector use scalars.

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
