// Second step of a call: results, dense operands, temporaries, and what they hold before the first
// launch.
#include <ATen/ExpandUtils.h>
#include <c10/core/MemoryFormat.h>

#include "device_kernels/template/template_call.h"
#include "tensors/dense.h"
#include "transfer/copy.h"
#include "transfer/fill.h"

namespace outboard {
namespace {

// Empty for row-major ones.
at::DimVector strides_in(at::MemoryFormat format, at::IntArrayRef sizes) {
  if (format == at::MemoryFormat::ChannelsLast && sizes.size() == 4) {
    return at::DimVector(c10::get_channels_last_strides_2d(sizes));
  }
  if (format == at::MemoryFormat::ChannelsLast3d && sizes.size() == 5) {
    return at::DimVector(c10::get_channels_last_strides_3d(sizes));
  }
  return {};
}

}  // namespace

bool TemplateKernel::make_results(Call& call, const torch::jit::Stack& stack) const {
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const size_t i = operand_count_ + k;
    const Tensor& description = tensors_[i];
    bool wanted = true;
    at::DimVector sizes;
    at::DimVector strides;
    if (k < call.meta.size()) {
      sizes = call.meta[k].sizes();
      strides = call.meta[k].strides();
    } else if (description.sizes < 0) {
      sizes = call.tensors.at(0).sizes();
    }
    const bool known = evaluates([&] {
      wanted = description.wanted < 0 || call.values.truth(description.wanted);
      if (!wanted) return true;
      if (k >= call.meta.size() && description.sizes >= 0) {
        sizes = call.values.sizes(description.sizes);
      }
      if (description.strides >= 0) {
        strides = call.values.sizes(description.strides);
      }
      return true;
    });
    if (!known) return false;
    if (!wanted) {
      call.dtypes[i] = at::ScalarType::Undefined;
      call.results.emplace_back();
      continue;
    }
    if (description.strides < 0 && strides.empty() && description.like >= 0) {
      const at::Tensor& model = call.tensors[description.like];
      strides = at::infer_dense_strides(model.sizes(), model.strides());
      if (model.is_non_overlapping_and_dense()) strides = model.strides();
      if (strides.size() != sizes.size()) strides.clear();
    }
    if (description.memory_format >= 0 && strides.empty()) {
      strides = strides_in(call.tensors[description.memory_format].suggest_memory_format(), sizes);
    }
    call.results.push_back(prepare_result(
        overload_, overload_.given_output(stack, k), sizes, call.dtypes[i], device_of(call.device),
        strides.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(strides),
        resizes_silently_));
    const at::Tensor& result = call.results.back();
    // What is written in place is written elsewhere first, unless it only starts from itself.
    bool elsewhere = !description.strided && !result.is_contiguous();
    for (size_t other = 0; other < operand_count_; ++other) {
      elsewhere = elsewhere || (description.starts_as != static_cast<int>(other) &&
                                result.is_same(call.tensors[other]));
    }
    // A copy-on-write storage gets memory of its own here; kernels are given plain addresses.
    if (!elsewhere) result.mutable_data_ptr();
    call.tensors[i] =
        elsewhere ? empty_on(call.device, result.sizes(), result.scalar_type()) : result;
    if (description.name_node >= 0) call.values.set(description.name_node, call.tensors[i]);
    initialize(call, i);
  }
  return true;
}

void TemplateKernel::make_operands_dense(Call& call) const {
  for (size_t i = 0; i < operand_count_; ++i) {
    if (call.tensors[i].defined() && !tensors_[i].strided) {
      call.tensors[i] = call.tensors[i].contiguous();
    }
  }
}

bool TemplateKernel::make_temporaries(Call& call) const {
  for (size_t i = operand_count_ + overload_.result_count(); i < tensors_.size(); ++i) {
    int64_t count = 0;
    const bool known = evaluates([&] {
      count = call.values.integer(tensors_[i].sizes);
      return true;
    });
    if (!known) return false;
    call.tensors[i] = empty_on(call.device, {count}, call.dtypes[i]);
    if (tensors_[i].name_node >= 0) call.values.set(tensors_[i].name_node, call.tensors[i]);
    initialize(call, i);
  }
  return true;
}

void TemplateKernel::initialize(Call& call, size_t i) const {
  const Tensor& description = tensors_[i];
  const at::Tensor& tensor = call.tensors[i];
  if (tensor.numel() == 0) return;
  if (description.initial >= 0) {
    fill_on_device(tensor, call.values.number(description.initial).as_real());
  }
  if (description.starts_as < 0) return;
  const at::Tensor& source = call.tensors[description.starts_as];
  if (!tensor.is_same(source)) copy_into(tensor, source);
}

}  // namespace outboard
