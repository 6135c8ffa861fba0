// The table of scalar functions, and their text for a value type.
#pragma once

#include <c10/core/ScalarType.h>

#include <map>
#include <string>

#include "runtime/export.h"

namespace outboard {

// Texts of one function, by the kind of the value type: "float", "integer" or "complex". In them T
// is the value type, S its element, M the mask type and C(x) a constant; other functions of the
// table are called as ob_<name>.
using ScalarFunction = std::map<std::string, std::string>;

// Replaces the table. Called once, before the first kernel is made.
OUTBOARD_API void set_scalar_functions(std::map<std::string, ScalarFunction> functions);

// Defines T, S, M, C, OB_ANY and, for float32, OB_BITS and OB_VALUE for values of `dtype`, and
// every function of the table that `text` calls as ob_<name>(...), with those that it calls itself.
// Raises ValueError for a function that does not exist for such values.
OUTBOARD_API std::string scalar_functions_text(at::ScalarType dtype, int width,
                                               const std::string& text);

}  // namespace outboard
