// Losses of x with a target t, and their derivatives, for scalars and vectors (`type`).

#if LOSS == 0  // squared error
#define LOSS_OF(type, x, t) ((x - t) * (x - t))
#define SLOPE_OF(type, x, t) (2 * (x - t))
#elif LOSS == 1  // smooth absolute error
#define LOSS_OF(type, x, t)                                              \
  (fabs(x - t) < (type)(shape) ? (type)(0.5) * (x - t) * (x - t) / shape \
                               : fabs(x - t) - (type)(0.5) * shape)
#define SLOPE_OF(type, x, t)           \
  (x - t <= (type)(-shape) ? (type)(-1) : (x - t >= (type)(shape) ? (type)(1) : (x - t) / shape))
#elif LOSS == 2  // Huber
#define LOSS_OF(type, x, t)                                        \
  (fabs(x - t) <= (type)(shape) ? (type)(0.5) * (x - t) * (x - t)  \
                                : shape * (fabs(x - t) - (type)(0.5) * shape))
#define SLOPE_OF(type, x, t) fmax(fmin(x - t, (type)(shape)), (type)(-shape))
#else  // binary cross entropy, with logarithms of at least -100; NaN outside of [0, 1]
#define BOUNDED(type, v) ((v) < (type)(-100) ? (type)(-100) : (v))
#define LOSS_OF(type, x, t) \
  ((t - (type)(1)) * BOUNDED(type, log1p(-x)) - t * BOUNDED(type, log(x)))
#define SLOPE_OF(type, x, t) ((x - t) / fmax((1 - x) * x, (type)(1e-12)))
#endif
