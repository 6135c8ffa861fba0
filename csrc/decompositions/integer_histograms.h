// Histograms of integers, which PyTorch has on accelerators and not on CPU.
#pragma once

namespace outboard {

// Adds them to the router. Once, at load.
void register_integer_histograms();

}  // namespace outboard
