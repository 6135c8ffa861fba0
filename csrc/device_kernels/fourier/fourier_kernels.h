// The kernels of `fourier`, in one program.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <map>
#include <string>

#include "runtime/programs/program.h"

namespace outboard {

// Dimension limit of kernels that read any layout.
constexpr int kFourierDimensions = 12;

// Complex values in a vector of 32 bytes, for values of `real`.
constexpr int64_t fourier_lanes(at::ScalarType real) {
  return real == at::ScalarType::Double ? 2 : 4;
}

// Documented in torch_outboard/kernels/products/fourier.cl.
struct FourierKernels {
  Kernel* read_complex;
  Kernel* read_real;
  Kernel* cut;
  Kernel* real_parts;
  Kernel* untangle;
  Kernel* tangle;
  Kernel* make_roots;
  Kernel* make_chirp;
  Kernel* chirp_ends;
  Kernel* with_chirp;
  Kernel* pass_any;
  // By radix.
  std::map<int64_t, Kernel*> passes;
  std::map<int64_t, Kernel*> lanes_passes;
  std::map<int64_t, Kernel*> first_passes;
};

// The kernels of `source` for values of dtype `real`; `wide`: 64-bit indices. Never destroyed.
const FourierKernels* make_fourier_kernels(c10::DeviceIndex device, at::ScalarType real, bool wide,
                                           const std::string& source);

}  // namespace outboard
