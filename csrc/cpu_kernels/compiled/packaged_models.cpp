#include "cpu_kernels/compiled/packaged_models.h"

#include <c10/core/DeviceType.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/inductor/aoti_torch/tensor_converter.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cpu_kernels/call/cpu_call.h"
#include "cpu_kernels/compiled/calls_on_device.h"
#include "runtime/driver/device.h"

namespace outboard {
namespace {

using torch::aot_inductor::alloc_tensors_by_stealing_from_handles;
using torch::aot_inductor::unsafe_alloc_new_handles_from_tensors;
using torch::inductor::AOTIModelContainerRunner;

// The model's code sees CPU tensors over the device's memory, or copies where the host does not
// share it.
class PackagedModel final : public AOTIModelContainerRunner {
 public:
  PackagedModel(const std::string& library, size_t models, const std::string& folder,
                bool single_threaded, c10::DeviceIndex device)
      : AOTIModelContainerRunner(library, models, "cpu", folder, single_threaded),
        device_(device) {}

 protected:
  std::vector<at::Tensor> run_impl(std::vector<AtenTensorHandle>& handles, void*) override {
    std::vector<at::Tensor> given =
        alloc_tensors_by_stealing_from_handles(handles.data(), handles.size());
    c10::DeviceIndex device = device_;
    for (const at::Tensor& tensor : given) {
      if (tensor.device().type() != c10::DeviceType::PrivateUse1) continue;
      TORCH_CHECK(device < 0 || device == tensor.device().index(),
                  "a packaged model runs on one device, and was given tensors of ", tensor.device(),
                  " and of device ", static_cast<int>(device),
                  "; move its inputs, or load it with their device_index");
      device = tensor.device().index();
    }
    if (device < 0) device = current_device();
    const DeviceScope scope(device);  // whose generator the model's code draws from
    CpuCall call(device);
    // Which inputs the model changes it does not say.
    std::vector<at::Tensor> host;
    for (const at::Tensor& tensor : given) host.push_back(call.map(tensor, Access::kWrite));
    std::vector<AtenTensorHandle> inputs = unsafe_alloc_new_handles_from_tensors(host);
    std::vector<at::Tensor> results = AOTIModelContainerRunner::run_impl(inputs, nullptr);
    for (at::Tensor& result : results) result = call.result(std::move(result));
    call.finish();
    return results;
  }

 private:
  const c10::DeviceIndex device_;  // -1: that of the inputs
};

// "name" or "name:1".
c10::DeviceIndex index_in(const std::string& device) {
  const size_t colon = device.find(':');
  if (colon == std::string::npos) return -1;
  return static_cast<c10::DeviceIndex>(std::strtol(device.c_str() + colon + 1, nullptr, 10));
}

}  // namespace

void register_packaged_models() {
  const std::string name = c10::DeviceTypeName(c10::DeviceType::PrivateUse1, /*lower_case=*/true);
  torch::inductor::getAOTIModelRunnerRegistry()[name] =
      [](const std::string& library, size_t models, const std::string& device,
         const std::string& folder,
         bool single_threaded) -> std::unique_ptr<AOTIModelContainerRunner> {
    define_draws_on_device();
    return std::make_unique<PackagedModel>(library, models, folder, single_threaded,
                                           index_in(device));
  };
}

}  // namespace outboard
