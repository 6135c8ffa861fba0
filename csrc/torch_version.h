// Everything that depends on the version of PyTorch stands here.
#pragma once

#include <torch/headeronly/version.h>

// The minor versions of PyTorch 2 that the kit is written for; setup.py reads them, too.
#define OUTBOARD_TORCH_FIRST_MINOR 11
#define OUTBOARD_TORCH_LAST_MINOR 15

#if TORCH_VERSION_MAJOR != 2 || TORCH_VERSION_MINOR < OUTBOARD_TORCH_FIRST_MINOR || \
    TORCH_VERSION_MINOR > OUTBOARD_TORCH_LAST_MINOR
#error "torch_outboard is not written for this version of PyTorch; README.md says for which"
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
