#include "device_kernels/convolution/fused_convolution.h"

#include "device_kernels/kernel_types.h"
#include "device_kernels/product/product_program.h"
#include "device_kernels/rows/overload.h"
#include "tensors/empty.h"

namespace outboard {

FusedConvolution::FusedConvolution(const std::string& source, const std::string& planes,
                                   const std::string& groups)
    : passes_(ProductProgram::keep(source), ProductProgram::keep(planes),
              ProductProgram::keep(groups)) {}

std::vector<at::Tensor> FusedConvolution::call(const at::Tensor& input, const at::Tensor& weight,
                                               const std::optional<at::Tensor>& bias,
                                               const ConvolutionArguments& arguments,
                                               const Epilogue::Texts& texts,
                                               const std::vector<at::Tensor>& operands,
                                               const std::vector<at::ScalarType>& results) const {
  const c10::DeviceIndex device = input.device().index();
  const auto check = [&](const at::Tensor& tensor) {
    TORCH_CHECK_VALUE(
        tensor.device().type() == c10::DeviceType::PrivateUse1 && is_dense_on(tensor, device) &&
            tensor.numel() > 0 && at::isFloatingType(tensor.scalar_type()) &&
            tensor.scalar_type() == input.scalar_type() && ConvolutionPasses::take(tensor),
        "a fused convolution takes tensors with elements, of one floating dtype on one "
        "device");
  };
  check(input);
  check(weight);
  ConvolutionGeometry geometry;
  geometry.transposed = arguments.transposed;
  geometry.groups = arguments.groups;
  c10::DimVector sizes;
  if (input.dim() >= 3 && input.dim() <= 5 && weight.dim() == input.dim() &&
      geometry.set(static_cast<size_t>(input.dim() - 2), arguments.stride, arguments.padding,
                   arguments.dilation, arguments.output_padding)) {
    sizes = geometry.output_sizes(input, weight);
  }
  TORCH_CHECK_VALUE(!sizes.empty(),
                    "a fused convolution takes images and a weight that fit, and got sizes ",
                    input.sizes(), " and ", weight.sizes());
  at::Tensor added;
  if (bias.has_value()) {
    added = *bias;
    check(added);
    TORCH_CHECK_VALUE(added.dim() == 1 && added.size(0) == sizes[1], "the bias of ", sizes[1],
                      " channels has as many elements, and got sizes ", added.sizes());
  }
  const Epilogue& kind = Epilogue::of(texts, operands, results);
  const at::Tensor out = empty_on(device, sizes, results[0], convolution_format(input, weight));
  const BoundEpilogue epilogue(kind, operands, out, sizes[1], 1);
  passes_.write_result(geometry, input, weight, added, out, &epilogue);
  return epilogue.results();
}

}  // namespace outboard
