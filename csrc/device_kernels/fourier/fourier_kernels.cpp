#include "device_kernels/fourier/fourier_kernels.h"

#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"

namespace outboard {

const FourierKernels* make_fourier_kernels(c10::DeviceIndex device, at::ScalarType real, bool wide,
                                           const std::string& source) {
  const std::string text =
      source_writer().fourier(real, fourier_lanes(real), wide, kFourierDimensions, source);
  const char* options = literal_options(real);
  const auto kernel = [&](const std::string& name) {
    return &find_kernel(device, text, name, options);
  };
  auto* made = new FourierKernels{kernel("read_complex"),
                                  kernel("read_real"),
                                  kernel("cut"),
                                  kernel("real_parts"),
                                  kernel("untangle"),
                                  kernel("tangle"),
                                  kernel("make_roots"),
                                  kernel("make_chirp"),
                                  kernel("chirp_ends"),
                                  kernel("with_chirp"),
                                  kernel("pass_any"),
                                  {},
                                  {},
                                  {}};
  for (const int64_t radix : {2, 3, 4, 5, 8}) {
    made->passes[radix] = kernel("pass" + std::to_string(radix));
  }
  for (const int64_t radix : {2, 4, 8}) {
    made->lanes_passes[radix] = kernel("lanes_pass" + std::to_string(radix));
    made->first_passes[radix] = kernel("first_pass" + std::to_string(radix));
  }
  return made;
}

}  // namespace outboard
