// Convolutions by the driver's library, in 1 to 3 dimensions, transposed and backward ones
// included.
#include "device_kernels/convolution/convolution_call.h"
#include "device_kernels/library/library_call.h"
#include "runtime/driver/driver_table.h"

namespace outboard {
namespace {

// False if the library declines.
bool convolve(ob_convolution_pass kind, const ConvolutionPass& pass) {
  const auto& [geometry, image, filter, result, added] = pass;
  const auto dimensions = static_cast<size_t>(image.dim() - 2);
  const ob_tensor input = library_tensor(image, kind == OB_CONVOLUTION_BACKWARD_INPUT);
  const ob_tensor weight = library_tensor(filter, kind == OB_CONVOLUTION_BACKWARD_WEIGHT);
  const ob_tensor output = library_tensor(result, kind == OB_CONVOLUTION_FORWARD);
  const ob_tensor bias = added.defined() ? library_tensor(added) : ob_tensor();
  ob_convolution description = {};
  description.struct_size = sizeof(description);
  description.pass = kind;
  description.spatial_dimensions = static_cast<uint32_t>(dimensions);
  description.input = &input;
  description.weight = &weight;
  description.output = &output;
  description.bias = added.defined() ? &bias : nullptr;
  for (size_t d = 0; d < std::size(description.stride); ++d) {
    // Spatial dimensions count from the first in the contract, and from the last in `geometry`.
    const size_t ours = d < dimensions ? d + 3 - dimensions : d - dimensions;
    description.stride[d] = geometry.stride[ours];
    description.padding[d] = geometry.padding[ours];
    description.dilation[d] = geometry.dilation[ours];
  }
  description.groups = geometry.groups;
  description.accumulation = library_accumulation(image.scalar_type());
  description.flags = library_flags(image.scalar_type());
  return LibraryCall<ob_convolution>(&ob_driver::convolution, "convolution",
                                     image.device().index())(description);
}

class LibraryConvolutionKernel final : public ConvolutionOperator {
 public:
  using ConvolutionOperator::ConvolutionOperator;
  bool calls_library() const noexcept override { return true; }

 protected:
  bool takes(ConvolutionOperands& operands, c10::DeviceIndex device) const override {
    return driver().convolution != nullptr &&
           library_computes(device, operands.input.scalar_type());
  }
  bool write_output(const ConvolutionPass& pass) const override {
    return convolve(OB_CONVOLUTION_FORWARD, pass);
  }
  bool write_input(const ConvolutionPass& pass, PaddedGradient& cached) const override {
    return convolve(OB_CONVOLUTION_BACKWARD_INPUT, pass);
  }
  bool write_weight(const ConvolutionPass& pass, const PaddedGradient& cached) const override {
    return convolve(OB_CONVOLUTION_BACKWARD_WEIGHT, pass);
  }
};

C10_REGISTER_CLASS(DefinitionKinds, library_convolution, LibraryConvolutionKernel)

}  // namespace
}  // namespace outboard
