// The same for the binding.
#include <torch/csrc/utils/pybind.h>

#include <pybind11/stl.h>

#include "precompiled.h"
