// Everything that depends on the version of PyTorch stands here: 2.11 to 2.13.
#pragma once

#include <torch/headeronly/version.h>

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < 11 || TORCH_VERSION_MINOR > 13
#error "torch_outboard is written for PyTorch 2.11 to 2.13; install one of these and build again"
#endif

#define OUTBOARD_TORCH_AT_LEAST(minor) (TORCH_VERSION_MINOR >= (minor))

// The functions `set_output_*` of structured operators had one more parameter, the names of the
// output's dimensions.
#if OUTBOARD_TORCH_AT_LEAST(13)
#define OUTBOARD_NAMES_PARAMETER
#define OUTBOARD_NAMES_ARGUMENT
#else
#define OUTBOARD_NAMES_PARAMETER , at::DimnameList names
#define OUTBOARD_NAMES_ARGUMENT , names
#endif

#if !OUTBOARD_TORCH_AT_LEAST(13)
// The macros of ATen/autocast_mode.h name this type without its namespace.
#include <ATen/core/Dimname.h>
namespace outboard {
using at::DimnameList;
}  // namespace outboard
#endif
