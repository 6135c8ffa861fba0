/* In this order. clang-format off */
#include "arithmetic.h"
#include "rounding.h"
#include "exponential.h"
#include "logarithm.h"
#include "power.h"
#include "trigonometric.h"
#include "inverse_trigonometric.h"
#include "hyperbolic.h"
#include "error_function.h"
#include "gamma.h"
#include "division.h"
/* clang-format on */
