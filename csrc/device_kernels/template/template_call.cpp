// What a call goes through. template_operands.cpp, template_results.cpp and template_launch.cpp
// have the steps, in this order.
#include "device_kernels/template/template_call.h"

#include "dispatch/placement.h"
#include "runtime/programs/device_assert.h"
#include "transfer/copy.h"

namespace outboard {

bool TemplateKernel::reserve_random(Call& call, const torch::jit::Stack& stack) const {
  if (random_ < 0) return true;
  std::optional<at::Generator> generator;
  if (generator_ >= 0) generator = overload_.read(stack, generator_).toOptional<at::Generator>();
  int64_t draws = 0;
  const bool known = evaluates([&] {
    draws = call.values.integer(random_);
    return draws >= 0;
  });
  if (!known) return false;
  call.philox = reserve_philox(generator, call.device, static_cast<uint64_t>(draws));
  return true;
}

void TemplateKernel::read_values(Call& call) const {
  for (const Read& read : reads_) {
    const at::Scalar element = call.tensors[read.tensor].narrow(0, 0, 1).item();
    const ExpressionNumber number = element.isIntegral(/*includeBool=*/true)
                                        ? ExpressionNumber(element.to<int64_t>())
                                        : ExpressionNumber(element.to<double>());
    if (read.node >= 0) call.values.set(read.node, number);
  }
}

bool TemplateKernel::serve(torch::jit::Stack* stack, c10::DeviceIndex device) {
  Call call(conditions_.graph(), device);
  call.tensors.reserve(tensors_.size());
  if (!prepare(call, *stack)) return false;
  alert();
  call.tensors.resize(tensors_.size());
  const DevicePlacementScope device_placement;
  const bool sized_by_reads = !reads_.empty();
  if (!sized_by_reads && !make_results(call, *stack)) return false;
  make_operands_dense(call);
  if (!make_temporaries(call) || !plan(call, 0, sized_by_reads ? read_after_ : launches_.size()) ||
      !reserve_random(call, *stack)) {
    return false;
  }
  enqueue(call);
  if (sized_by_reads) {
    read_values(call);
    if (!make_results(call, *stack) || !plan(call, read_after_, launches_.size())) return false;
    enqueue(call);
  }
  if (fault_.reports()) expect_assert(current_stream_state(device), fault_.on(device));
  for (size_t k = 0; k < call.results.size(); ++k) {
    const at::Tensor& computed = call.tensors[operand_count_ + k];
    if (call.results[k].defined() && !call.results[k].is_same(computed)) {
      copy_into(call.results[k], computed);
    }
  }
  overload_.finish(stack, call.results);
  return true;
}

}  // namespace outboard
