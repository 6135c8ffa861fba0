// Histograms of integers, which PyTorch supports on accelerators and not on CPU.
#pragma once

namespace outboard {

// Registers them with the router; once, at load.
void register_integer_histograms();

}  // namespace outboard
