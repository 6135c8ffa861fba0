#include "cpu_kernels/compiled_code.h"

#include <c10/core/DeviceType.h>
#include <c10/core/impl/COW.h>
#include <torch/csrc/inductor/aoti_runner/model_container_runner.h>
#include <torch/csrc/inductor/aoti_torch/tensor_converter.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dispatch/tensor_arguments.h"
#include "tensors/host_view.h"

namespace outboard {
namespace {

// Whether the memory of `tensor` can be viewed independently of other inputs. Writing to one input
// moves the copy-on-write storage of others; CpuCall handles that.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_privateuseone() && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.is_quantized() && tensor.has_storage() &&
         !c10::impl::cow::is_cow_data_ptr(tensor.storage().data_ptr());
}

}  // namespace

// A CpuCall keeps mapped tensors until its end. A view keeps only the storage, so that a saved
// result of a forward pass is freed as soon as the graph releases it.
at::Tensor HostGraphCall::input(const at::Tensor& tensor, bool written) {
  const Access access = written ? Access::kWrite : Access::kRead;
  const bool viewed = call_.placement() == Placement::kHost && is_plain(tensor);
  at::Tensor host = viewed ? host_tensor(tensor, access) : call_.map(tensor, access);
  if (written) written_.emplace_back(tensor, host);
  return host;
}

at::Tensor HostGraphCall::result(const at::Tensor& host, bool owned) {
  if (owned && call_.placement() == Placement::kHost && turn_into_device(host, device_)) {
    return host;
  }
  return call_.result(host);
}

void HostGraphCall::finish() {
  for (const auto& [device, host] : written_) call_.written(device, host);
  call_.finish();
}

namespace {

constexpr const char* kNamespace = "outboard_on_device";

// A value with all tensors and devices in it moved to a device.
c10::IValue moved(c10::IValue value, c10::Device device) {
  if (value.isDevice()) return device;
  convert_tensors(value, [device](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.to(device) : tensor;
  });
  return value;
}

class CallOnDevice final : public c10::OperatorKernel {
 public:
  explicit CallOnDevice(c10::OperatorHandle op) : op_(std::move(op)) {}

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const at::NoGradGuard no_grad;
    move_last(*stack, op_.schema().arguments().size(),
              c10::Device(c10::DeviceType::PrivateUse1, current_device()));
    op_.callBoxed(stack);
    move_last(*stack, op_.schema().returns().size(), c10::Device(c10::kCPU));
  }

 private:
  static void move_last(torch::jit::Stack& stack, size_t count, c10::Device device) {
    for (auto value = stack.end() - static_cast<ptrdiff_t>(count); value != stack.end(); ++value) {
      *value = moved(std::move(*value), device);
    }
  }

  const c10::OperatorHandle op_;
};

std::string name_of(const c10::OperatorName& op) {
  std::string name = op.name;  // "aten::normal"
  name.replace(name.find("::"), 2, "_");
  return name + "_" + (op.overload_name.empty() ? "default" : op.overload_name);
}

}  // namespace

std::string define_call_on_device(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  // Never destroyed: removing operators at exit needs objects that are destroyed before.
  static auto& defined = *new std::map<std::string, std::unique_ptr<torch::Library>>();
  const std::string name = name_of(op.operator_name());
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<torch::Library>& library = defined[name];
  if (library) return name;
  TORCH_CHECK(!op.schema().hasAnyAliasInfo(), op.schema(),
              " writes to an argument or returns one, and cannot be called with copies; call one "
              "that returns new tensors");
  auto made = std::make_unique<torch::Library>(torch::Library::FRAGMENT, kNamespace, std::nullopt,
                                               __FILE__, __LINE__);
  // An lvalue: another `def` takes any rvalue as a function.
  const std::vector<at::Tag> tags = op.getTags().vec();
  made->def(op.schema().cloneWithName(std::string(kNamespace) + "::" + name, ""), tags);
  made->impl(name.c_str(), torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd,
                                           torch::CppFunction::makeFromBoxedFunctor(
                                               std::make_unique<CallOnDevice>(op))));
  library = std::move(made);
  return name;
}

void define_draws_on_device() {
  [[maybe_unused]] static const bool defined = [] {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      const std::optional<c10::OperatorHandle> op = dispatcher.findSchema(name);
      if (!op || name.getNamespace() != "aten") continue;
      if (op->hasTag(at::Tag::nondeterministic_seeded) && !op->schema().hasAnyAliasInfo()) {
        define_call_on_device(*op);
      }
    }
    return true;
  }();
}

namespace {

using torch::aot_inductor::alloc_tensors_by_stealing_from_handles;
using torch::aot_inductor::unsafe_alloc_new_handles_from_tensors;
using torch::inductor::AOTIModelContainerRunner;

// The model's code gets CPU tensors over the device's memory, or copies where memory is not shared.
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
    HostGraphCall call(device);
    // The model does not say which inputs it changes.
    std::vector<at::Tensor> host;
    for (const at::Tensor& tensor : given) host.push_back(call.input(tensor, /*written=*/true));
    std::vector<AtenTensorHandle> inputs = unsafe_alloc_new_handles_from_tensors(host);
    std::vector<at::Tensor> results = AOTIModelContainerRunner::run_impl(inputs, nullptr);
    for (at::Tensor& result : results) result = call.result(result, /*owned=*/true);
    call.finish();
    return results;
  }

 private:
  const c10::DeviceIndex device_;  // -1: that of the inputs
};

}  // namespace

void register_packaged_models() {
  const std::string name = c10::DeviceTypeName(c10::DeviceType::PrivateUse1, /*lower_case=*/true);
  torch::inductor::getAOTIModelRunnerRegistry()[name] =
      [](const std::string& library, size_t models, const std::string& device,
         const std::string& folder,
         bool single_threaded) -> std::unique_ptr<AOTIModelContainerRunner> {
    define_draws_on_device();
    return std::make_unique<PackagedModel>(library, models, folder, single_threaded,
                                           c10::Device(device).index());
  };
}

}  // namespace outboard
