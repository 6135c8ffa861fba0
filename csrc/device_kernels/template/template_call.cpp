#include <ATen/Context.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>

#include "transfer/copy.h"
#include "tensors/empty.h"
#include "tensors/span.h"
#include "transfer/fill.h"
#include "dispatch/ways.h"
#include "device_kernels/kernel_types.h"
#include "device_kernels/template/template.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"
#include "runtime/generator.h"
#include "runtime/programs/kernel_faults.h"

namespace outboard {
namespace {

using at::ScalarType;

// A grid of work-groups is at most so many per compute unit; each then takes several items.
constexpr uint64_t kGroupsPerUnit = 64;

// An element of a list of tensors, or None where the list has none there.
const c10::IValue& element_of(const c10::IValue& list, int64_t place) {
  static const c10::IValue none;
  if (!list.isList()) return none;
  const c10::ArrayRef<c10::IValue> elements = list.toListRef();
  const auto count = static_cast<int64_t>(elements.size());
  if (place < 0) place += count;
  return place >= 0 && place < count ? elements[static_cast<size_t>(place)] : none;
}

template <class Index>
struct Layout {
  Index dims = 0;
  Index size[kTemplateDimensions] = {};
  Index stride[kTemplateDimensions] = {};

  explicit Layout(const at::Tensor& tensor) {
    dims = static_cast<Index>(tensor.dim());
    for (int64_t d = 0; d < tensor.dim(); ++d) {
      size[d] = static_cast<Index>(tensor.size(d));
      stride[d] = static_cast<Index>(tensor.stride(d));
    }
  }
};

template <class Index>
struct Numbers {
  Index at[kTemplateList] = {};

  explicit Numbers(const c10::SmallVector<int64_t, 6>& list) {
    for (size_t i = 0; i < list.size(); ++i) at[i] = static_cast<Index>(list[i]);
  }
};

// Kernels add two numbers, or a number and the place of an element, in one step: with 32 bits,
// neither may have more than this. Beyond the second bound even 64 bits are not enough.
constexpr int64_t kNarrowNumber = (int64_t{1} << 30) - 1;
constexpr int64_t kWideNumber = (int64_t{1} << 62) - 1;

bool within(int64_t number, int64_t bound) { return number >= -bound && number <= bound; }

// Whether what a call brings suits a row's expressions. If not, the host knows the error.
template <class Function>
bool evaluates(const Function& function) {
  try {
    return function();
  } catch (const c10::ValueError&) {
    return false;
  } catch (const c10::IndexError&) {
    return false;
  }
}

}  // namespace

struct TemplateKernel::Call {
  struct Planned {
    size_t launch;
    uint64_t items;
    uint64_t repeat;
  };

  c10::DeviceIndex device;
  std::vector<at::Tensor> tensors;  // as kernels see them
  std::vector<at::Tensor> results;  // as they are returned
  c10::SmallVector<ScalarType, 8> dtypes;
  std::vector<ExpressionValue> values;  // per slot
  std::vector<at::Tensor> meta;         // results by PyTorch's Meta kernel
  std::vector<at::Scalar> scalars;
  PhiloxState philox{0, 0};
  // What launches need: parameters and constants of kernels in their order, and how often which.
  c10::SmallVector<int64_t, 16> numbers;
  c10::SmallVector<double, 8> reals;
  c10::SmallVector<c10::SmallVector<int64_t, 6>, 2> lists;
  c10::SmallVector<int64_t, 8> constants;
  c10::SmallVector<Planned, 4> launches;
  bool wide = false;
};

bool TemplateKernel::read_operands(Call& call, const torch::jit::Stack& stack) const {
  for (size_t i = 0; i < operand_count_; ++i) {
    const c10::IValue& argument = overload_.read(stack, tensors_[i].argument);
    const c10::IValue& value =
        tensors_[i].element.has_value() ? element_of(argument, *tensors_[i].element) : argument;
    if (value.isNone() || (value.isTensor() && !value.toTensor().defined())) {
      if (!tensors_[i].optional) return false;
      call.tensors.emplace_back();
      continue;
    }
    if (!value.isTensor()) return false;
    const at::Tensor& tensor = value.toTensor();
    if (!is_dense_on(tensor, call.device) || tensor.is_conj() || tensor.is_neg()) return false;
    if (tensors_[i].strided && tensor.dim() > kTemplateDimensions) return false;
    call.tensors.push_back(tensor);
  }
  return true;
}

bool TemplateKernel::choose_dtypes(Call& call, const torch::jit::Stack& stack) const {
  call.dtypes.resize(tensors_.size(), ScalarType::Undefined);
  for (size_t i = 0; i < operand_count_; ++i) {
    if (!call.tensors[i].defined()) continue;
    const ScalarType dtype = call.tensors[i].scalar_type();
    call.dtypes[i] = dtype;
    if (!has_kernel_type(dtype)) return false;
    if (!tensors_[i].items && !computes(call.device, dtype)) return false;
    if (i == 0) continue;
    const bool fits = tensors_[i].accepts != 0 ? (tensors_[i].accepts & dtype_bit(dtype)) != 0
                                               : dtype == call.dtypes[0];
    if (!fits) return false;
  }
  for (size_t i = operand_count_; i < tensors_.size(); ++i) {
    const Tensor& tensor = tensors_[i];
    ScalarType& dtype = call.dtypes[i];
    const size_t result = i - operand_count_;
    if (result < call.meta.size() && call.meta[result].defined()) {
      dtype = call.meta[result].scalar_type();
    } else if (tensor.from_argument) {
      const c10::IValue& value = overload_.read(stack, overload_.index("dtype"));
      dtype = value.isNone()
                  ? (operand_count_ > 0 ? call.dtypes[0] : at::get_default_dtype_as_scalartype())
                  : value.toScalarType();
    } else if (tensor.of_values) {
      dtype = value_dtype(compute_dtype(call));
    } else if (tensor.dtype != ScalarType::Undefined) {
      dtype = tensor.dtype;
    } else if (tensor.dtype_of == static_cast<int>(i)) {
      // A factory's result: given, by the argument `dtype`, or the default.
      const at::Tensor& given = overload_.given_output(stack, result);
      const int argument = overload_.find("dtype");
      if (given.defined()) {
        dtype = given.scalar_type();
      } else if (argument >= 0 && !overload_.read(stack, argument).isNone()) {
        dtype = overload_.read(stack, argument).toScalarType();
      } else {
        dtype = at::get_default_dtype_as_scalartype();
      }
    } else {
      dtype = call.dtypes[tensor.dtype_of];
    }
    if (dtype == ScalarType::Undefined) continue;
    if (!has_kernel_type(dtype) || (!tensor.items && !computes(call.device, dtype))) return false;
  }
  if ((dtypes_ & dtype_bit(call.dtypes[0])) == 0) return false;
  return compute_ == ScalarType::Undefined || computes(call.device, compute_);
}

bool TemplateKernel::given_results_fit(const Call& call, const torch::jit::Stack& stack) const {
  if (overload_.form() == Overload::Form::kFunctional) return true;
  if (!writes_apart(overload_, stack)) return false;
  for (size_t k = 0; k < overload_.result_count(); ++k) {
    const Tensor& description = tensors_[operand_count_ + k];
    const at::Tensor& given = overload_.given_output(stack, k);
    // Of another dtype: the host knows whether that is an error.
    if (!is_dense_on(given, call.device) || given.is_conj() || given.is_neg() ||
        given.scalar_type() != call.dtypes[operand_count_ + k] ||
        (description.strided && given.dim() > kTemplateDimensions)) {
      return false;
    }
    for (size_t i = 0; i < operand_count_; ++i) {
      const at::Tensor& operand = call.tensors[i];
      if (!operand.defined()) continue;
      // make_results sees to what is written in place. Of out= the host knows what is allowed.
      const bool in_place = overload_.form() == Overload::Form::kInPlace ||
                            description.initial == static_cast<int>(i);
      if (in_place && operand.is_same(given)) continue;
      if (may_overlap(given, operand)) return false;
      const bool grows = k < call.meta.size() && given.sizes() != call.meta[k].sizes();
      if (grows && given.storage().is_alias_of(operand.storage())) return false;
    }
  }
  return true;
}

bool TemplateKernel::prepare(Call& call, const torch::jit::Stack& stack) const {
  if (!requirements_.hold(stack) || !read_operands(call, stack)) return false;
  if (operand_count_ > 0 && (dtypes_ & dtype_bit(call.tensors[0].scalar_type())) == 0) return false;
  call.values.resize(names_.size());
  for (size_t i = 0; i < overload_.argument_count(); ++i) {
    const c10::IValue& value = overload_.read(stack, static_cast<int>(i));
    call.values[i] = ExpressionValue::of(value);
  }
  for (size_t i = 0; i < operand_count_; ++i) {
    if (!tensors_[i].element.has_value()) continue;
    call.values[tensors_[i].slot] = ExpressionValue::of(call.tensors[i]);
  }
  call.values[overload_.argument_count()] = ExpressionValue::of(int64_t{group_lanes(call.device)});
  call.values[overload_.argument_count() + 1] =
      ExpressionValue::of(at::globalContext().deterministicAlgorithms());
  for (const int argument : scalars_) {
    const c10::IValue& value = overload_.read(stack, argument);
    if (!value.isScalar()) return false;
    call.scalars.push_back(value.toScalar());
  }
  const bool served = evaluates([&] {
    for (const Named& named : let_) {
      call.values[named.slot] = named.expression.evaluate(call.values);
    }
    for (const Expression& condition : conditions_) {
      if (!condition.evaluate(call.values).truth()) return false;
    }
    return true;
  });
  if (!served) return false;
  if (meta_.has_value()) call.meta = meta_->results(overload_, stack);
  return choose_dtypes(call, stack) && given_results_fit(call, stack);
}

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
    } else if (description.sizes.empty()) {
      sizes = call.tensors.at(0).sizes();
    }
    const bool known = evaluates([&] {
      wanted = description.wanted.empty() || description.wanted.evaluate(call.values).truth();
      if (!wanted) return true;
      if (k >= call.meta.size() && !description.sizes.empty()) {
        sizes = description.sizes.evaluate(call.values).as_sizes();
      }
      if (!description.strides.empty()) {
        strides = description.strides.evaluate(call.values).as_sizes();
      }
      return true;
    });
    if (!known) return false;
    if (!wanted) {
      call.dtypes[i] = ScalarType::Undefined;
      call.results.emplace_back();
      continue;
    }
    if (description.strides.empty() && strides.empty() && description.like >= 0) {
      const at::Tensor& model = call.tensors[description.like];
      strides = at::infer_dense_strides(model.sizes(), model.strides());
      if (model.is_non_overlapping_and_dense()) strides = model.strides();
      if (strides.size() != sizes.size()) strides.clear();
    }
    call.results.push_back(prepare_result(
        overload_, overload_.given_output(stack, k), sizes, call.dtypes[i], device_of(call.device),
        strides.empty() ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(strides),
        resizes_silently_));
    const at::Tensor& result = call.results.back();
    // What is written in place is written elsewhere first, unless it only starts from itself.
    bool elsewhere = !description.strided && !result.is_contiguous();
    for (size_t other = 0; other < operand_count_; ++other) {
      elsewhere = elsewhere || (description.initial != static_cast<int>(other) &&
                                result.is_same(call.tensors[other]));
    }
    // A copy-on-write storage gets memory of its own here; kernels are given plain addresses.
    if (!elsewhere) result.mutable_data_ptr();
    call.tensors[i] =
        elsewhere ? empty_on(call.device, result.sizes(), result.scalar_type()) : result;
    call.values[description.slot] = ExpressionValue::of(call.tensors[i]);
    initialize(call, i);
  }
  return true;
}

bool TemplateKernel::make_temporaries(Call& call) const {
  for (size_t i = operand_count_ + overload_.result_count(); i < tensors_.size(); ++i) {
    int64_t count = 0;
    const bool known = evaluates([&] {
      count = tensors_[i].sizes.evaluate(call.values).as_integer();
      return true;
    });
    if (!known) return false;
    call.tensors[i] = empty_on(call.device, {count}, call.dtypes[i]);
    call.values[tensors_[i].slot] = ExpressionValue::of(call.tensors[i]);
    initialize(call, i);
  }
  return true;
}

void TemplateKernel::initialize(Call& call, size_t i) const {
  const Tensor& description = tensors_[i];
  const at::Tensor& tensor = call.tensors[i];
  if (description.initial == Tensor::kWhatWasThere || tensor.numel() == 0) return;
  if (description.initial == Tensor::kNumber) {
    fill_on_device(tensor, description.initial_number);
    return;
  }
  const at::Tensor& source = call.tensors[description.initial];
  if (!tensor.is_same(source)) copy_into(tensor, source);
}

ScalarType TemplateKernel::compute_dtype(const Call& call) const {
  return compute_ != ScalarType::Undefined ? compute_ : call.dtypes[compute_of_];
}

const TemplateKernel::Kernels& TemplateKernel::kernels(const Call& call) {
  Key key{call.device, call.wide, {}};
  for (const ScalarType dtype : call.dtypes) key.values.push_back(static_cast<int64_t>(dtype));
  key.values.append(call.constants.begin(), call.constants.end());
  return table_.find(key, [&] {
    const WorkShape shape = work_shape(call.device);
    const bool gpu = device_properties(call.device).kind != OB_DEVICE_CPU;
    TemplateSource source;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      source.tensors.push_back(
          {tensors_[i].name, call.dtypes[i], tensors_[i].items, tensors_[i].strided});
    }
    source.scalars = scalar_names_;
    for (const Named& named : numbers_) source.numbers.push_back(named.name);
    for (const Named& named : reals_) source.reals.push_back(named.name);
    for (const Named& named : lists_) source.lists.push_back(named.name);
    for (size_t i = 0; i < constants_.size(); ++i) {
      source.constants.emplace_back(constants_[i].name, key.values[tensors_.size() + i]);
    }
    source.text = source_;
    source.moves_items = tensors_[0].items;
    source.compute = compute_dtype(call);
    source.random = !random_.empty();
    source.reports = !reports_.empty();
    source.wide = call.wide;
    source.gpu = gpu;
    source.width = 1;
    if (vectors_ && !source.moves_items && !at::isComplexType(source.compute)) {
      source.width = shape.width(
          static_cast<int>(std::max<size_t>(c10::elementSize(value_dtype(source.compute)), 4)));
    }
    source.local = group_lanes(call.device);
    const std::string text = source.program();
    Kernels made;
    for (const Launch& launch : launches_) {
      made.launches.push_back(&find_kernel(call.device, text, launch.kernel, source.options()));
    }
    return made;
  });
}

void TemplateKernel::add_index(const Call& call, LaunchArguments& arguments, int64_t number) {
  if (call.wide) {
    arguments.value(number);
  } else {
    arguments.value(static_cast<int32_t>(number));  // plan() knows that it fits
  }
}

void TemplateKernel::add_arguments(const Call& call, LaunchArguments& arguments) {
  const void* some = nullptr;
  for (const at::Tensor& tensor : call.tensors) {
    if (tensor.defined() && tensor.numel() > 0) some = tensor.const_data_ptr();
  }
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const at::Tensor& tensor = call.tensors[i];
    const bool there = tensor.defined() && tensor.numel() > 0;
    arguments.address(there ? tensor.const_data_ptr() : some);
    if (!tensors_[i].strided) continue;
    const at::Tensor& described = tensor.defined() ? tensor : call.tensors[0];
    if (call.wide) {
      arguments.value(Layout<int64_t>(described));
    } else {
      arguments.value(Layout<int32_t>(described));
    }
  }
  const ScalarType compute = compute_dtype(call);
  for (const at::Scalar& scalar : call.scalars) {
    if (tensors_[0].items) {
      alignas(16) std::byte item[16] = {};
      const size_t size = c10::elementSize(compute);
      at::Tensor element =
          at::from_blob(item, {}, at::TensorOptions().dtype(compute).device(at::kCPU));
      element.fill_(scalar);
      arguments.bytes(item, size);
    } else {
      add_scalar(arguments, scalar, value_dtype(compute));
    }
  }
  for (const int64_t number : call.numbers) add_index(call, arguments, number);
  const bool twice = !tensors_[0].items && (value_dtype(compute) == ScalarType::Double ||
                                            compute == ScalarType::ComplexDouble);
  for (const double number : call.reals) {
    if (twice) {
      arguments.value(number);
    } else {
      arguments.value(static_cast<float>(number));
    }
  }
  for (const auto& list : call.lists) {
    if (call.wide) {
      arguments.value(Numbers<int64_t>(list));
    } else {
      arguments.value(Numbers<int32_t>(list));
    }
  }
  if (!reports_.empty()) arguments.address(fault(call.device).address());
  if (!random_.empty()) arguments.value(call.philox.seed).value(call.philox.offset);
}

bool TemplateKernel::plan(Call& call, size_t first, size_t last) const {
  call.numbers.clear();
  call.reals.clear();
  call.lists.clear();
  call.constants.clear();
  call.launches.clear();
  call.wide = false;
  for (const at::Tensor& tensor : call.tensors) {
    if (tensor.defined() && (tensor.numel() > INT32_MAX || span_elements(tensor) > INT32_MAX)) {
      call.wide = true;
    }
  }
  const auto fits = [&](int64_t number) {
    call.wide = call.wide || !within(number, kNarrowNumber);
    return within(number, kWideNumber);
  };
  std::optional<size_t> negative;
  const bool known = evaluates([&] {
    for (size_t i = first; i < last; ++i) {
      const Launch& launched = launches_[i];
      if (!launched.when.empty() && !launched.when.evaluate(call.values).truth()) continue;
      const int64_t items = launched.items.evaluate(call.values).as_integer();
      const int64_t repeat =
          launched.repeat.empty() ? 1 : launched.repeat.evaluate(call.values).as_integer();
      if (items < 0 || repeat < 0) {
        negative = i;
        return true;
      }
      if (items == 0 || repeat == 0) continue;
      if (!fits(items) || !fits(repeat)) return false;
      call.launches.push_back({i, static_cast<uint64_t>(items), static_cast<uint64_t>(repeat)});
    }
    if (call.launches.empty()) return true;
    for (const Named& named : constants_) {
      call.constants.push_back(named.expression.evaluate(call.values).as_integer());
    }
    for (const Named& named : numbers_) {
      call.numbers.push_back(named.expression.evaluate(call.values).as_integer());
      if (!fits(call.numbers.back())) return false;
    }
    for (const Named& named : reals_) {
      call.reals.push_back(named.expression.evaluate(call.values).as_number().as_real());
    }
    for (const Named& named : lists_) {
      const ExpressionValue value = named.expression.evaluate(call.values);
      if (value.as_list().size() > kTemplateList) return false;
      auto& list = call.lists.emplace_back();
      for (const ExpressionNumber& element : value.as_list()) {
        list.push_back(element.as_integer());
        if (!fits(list.back())) return false;
      }
    }
    return true;
  });
  TORCH_CHECK_VALUE(!negative.has_value(), "the row of ", overload_.name(),
                    " asks for a negative number of work items or launches of the kernel '",
                    launches_[negative.value_or(0)].kernel, "'; write 0 where it is left out");
  return known;
}

void TemplateKernel::enqueue(Call& call) {
  if (call.launches.empty()) return;
  const WorkShape shape = work_shape(call.device);
  const uint64_t units = std::max<uint32_t>(device_properties(call.device).compute_units, 1);
  const Kernels& known = kernels(call);
  for (const Call::Planned& planned : call.launches) {
    Grid grid;
    if (launches_[planned.launch].groups) {
      const auto local = static_cast<uint64_t>(group_lanes(call.device));
      grid = Grid::linear(std::min(planned.items, units * kGroupsPerUnit) * local, local);
    } else {
      grid = Grid::linear(planned.items, shape.local);
    }
    for (uint64_t step = 0; step < planned.repeat; ++step) {
      LaunchArguments arguments;
      add_arguments(call, arguments);
      add_index(call, arguments, static_cast<int64_t>(planned.items));
      add_index(call, arguments, static_cast<int64_t>(step));
      launch(current_stream_state(call.device), *known.launches[planned.launch], grid, arguments);
    }
  }
}

KernelFault& TemplateKernel::fault(c10::DeviceIndex device) {
  return *faults_.find(device, [&] {
    const bool index = reports_.rfind("IndexError", 0) == 0;
    const size_t colon = reports_.find(": ");
    const std::string words =
        colon == std::string::npos ? "index out of range" : reports_.substr(colon + 2);
    return &KernelFault::make(
        device, index ? KernelFault::Kind::kIndexError : KernelFault::Kind::kRuntimeError,
        c10::str(words, " in ", overload_.name()));
  });
}

bool TemplateKernel::run(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                         torch::jit::Stack* stack, c10::DeviceIndex device) {
  Call call;
  call.device = device;
  call.tensors.reserve(tensors_.size());
  if (!prepare(call, *stack)) return false;
  alert();
  call.tensors.resize(tensors_.size());
  const DeviceWayScope device_way;
  if (reads_.empty() && !make_results(call, *stack)) return false;
  for (size_t i = 0; i < operand_count_; ++i) {
    if (call.tensors[i].defined() && !tensors_[i].strided) {
      call.tensors[i] = call.tensors[i].contiguous();
    }
  }
  if (!make_temporaries(call) || !plan(call, 0, reads_.empty() ? launches_.size() : read_after_)) {
    return false;
  }
  if (!random_.empty()) {
    std::optional<at::Generator> generator;
    if (generator_ >= 0) generator = overload_.read(*stack, generator_).toOptional<at::Generator>();
    int64_t draws = 0;
    const bool known = evaluates([&] {
      draws = random_.evaluate(call.values).as_integer();
      return draws >= 0;
    });
    if (!known) return false;
    call.philox = reserve_philox(generator, device, static_cast<uint64_t>(draws));
  }
  enqueue(call);
  if (!reads_.empty()) {
    for (const Read& read : reads_) {
      const at::Scalar element = call.tensors[read.tensor].narrow(0, 0, 1).item();
      call.values[read.slot] = element.isIntegral(/*includeBool=*/true)
                                   ? ExpressionValue::of(element.to<int64_t>())
                                   : ExpressionValue::of(element.to<double>());
    }
    if (!make_results(call, *stack) || !plan(call, read_after_, launches_.size())) return false;
    enqueue(call);
  }
  if (!reports_.empty()) expect_fault(current_stream_state(device), fault(device));
  for (size_t k = 0; k < call.results.size(); ++k) {
    const at::Tensor& computed = call.tensors[operand_count_ + k];
    if (call.results[k].defined() && !call.results[k].is_same(computed)) {
      copy_into(call.results[k], computed);
    }
  }
  overload_.finish(stack, std::move(call.results));
  return true;
}

}  // namespace outboard
