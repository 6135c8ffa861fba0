// Launches of a call: parameters and constants of the kernels, and their programs.
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>

#include "device_kernels/kernel_types.h"
#include "device_kernels/source_writer.h"
#include "device_kernels/template/template.h"
#include "device_kernels/work_shape.h"
#include "runtime/driver/device.h"
#include "tensors/dense.h"

namespace outboard {

using at::ScalarType;

namespace {

// Most work-groups per compute unit; each then loops.
constexpr uint64_t kGroupsPerUnit = 64;

// The constant that limits the registers of a work-item.
constexpr const char* kRegisters = "OB_REGISTERS";

struct Layout {
  int64_t dims, size[kTemplateDimensions] = {}, stride[kTemplateDimensions] = {};

  explicit Layout(const at::Tensor& tensor) : dims(tensor.dim()) {
    std::copy(tensor.sizes().begin(), tensor.sizes().end(), size);
    std::copy(tensor.strides().begin(), tensor.strides().end(), stride);
  }
};

// Limits of numbers, so that the sum of two, or of a number and an index, fits 32 or 64 bits.
constexpr int64_t kNarrowNumber = (int64_t{1} << 30) - 1;
constexpr int64_t kWideNumber = (int64_t{1} << 62) - 1;

bool within(int64_t number, int64_t bound) { return number >= -bound && number <= bound; }

}  // namespace

ScalarType TemplateKernel::compute_dtype(const Call& call) const {
  return compute_ != ScalarType::Undefined ? compute_ : call.dtypes[compute_of_];
}

const ProgramKernels& TemplateKernel::kernels(const Call& call) {
  c10::SmallVector<int64_t, 16> values;
  for (const ScalarType dtype : call.dtypes) values.push_back(static_cast<int64_t>(dtype));
  values.append(call.constants.begin(), call.constants.end());
  values.push_back(call.lanes);
  return table_.find({call.device, call.wide, values}, [&]() -> ProgramKernels {
    const ScalarType compute = compute_dtype(call);
    const bool moves = tensors_[0].items;
    std::vector<SourceFields> tensors;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      tensors.push_back({"TemplateTensor",
                         {{"name", tensors_[i].name},
                          {"dtype", call.dtypes[i]},
                          {"items", tensors_[i].items},
                          {"strided", tensors_[i].strided}}});
    }
    const auto names = [](const std::vector<Named>& values) {
      std::vector<std::string> result;
      for (const Named& named : values) result.push_back(named.name);
      return result;
    };
    std::string options = literal_options(moves ? ScalarType::Float : value_dtype(compute));
    std::vector<std::pair<std::string, int64_t>> constants;
    for (size_t i = 0; i < constants_.size(); ++i) {
      if (constants_[i].name == kRegisters) {  // drivers look for it there
        options += c10::str(" -D", kRegisters, "=", call.constants[i]);
      } else {
        constants.emplace_back(constants_[i].name, call.constants[i]);
      }
    }
    int width = 1;
    if (vectors_ && !moves && !at::isComplexType(compute)) {
      const size_t bytes = std::max<size_t>(c10::elementSize(value_dtype(compute)), 4);
      width = work_shape(call.device).width(static_cast<int>(bytes));
    }
    std::string source =
        write_source({"template",
                      {{"tensors", tensors},
                       {"scalars", scalar_names_},
                       {"numbers", names(numbers_)},
                       {"reals", names(reals_)},
                       {"lists", names(lists_)},
                       {"constants", constants},
                       {"kernels", source_},
                       {"compute", compute},
                       {"moves_items", moves},
                       {"random", random_ >= 0},
                       {"reports", assert_.reports()},
                       {"wide", call.wide},
                       {"gpu", device_properties(call.device).kind != OB_DEVICE_CPU},
                       {"width", width},
                       {"local", call.lanes},
                       {"dimensions", kTemplateDimensions},
                       {"list_length", kTemplateList}}});
    return {call.device, std::move(source), std::move(options)};
  });
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
    add_layout(arguments, Layout(described), call.wide);
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
  for (const int64_t number : call.numbers) add_layout(arguments, number, call.wide);
  const bool is_double = !tensors_[0].items && (value_dtype(compute) == ScalarType::Double ||
                                                compute == ScalarType::ComplexDouble);
  for (const double number : call.reals) {
    is_double ? arguments.value(number) : arguments.value(static_cast<float>(number));
  }
  for (const auto& list : call.lists) {
    std::array<int64_t, kTemplateList> numbers = {};
    std::copy(list.begin(), list.end(), numbers.begin());
    add_layout(arguments, numbers, call.wide);
  }
  if (assert_.reports()) arguments.address(assert_.on(call.device).address());
  if (random_ >= 0) arguments.value(call.philox.seed).value(call.philox.offset);
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
      if (launched.when >= 0 && !call.values.truth(launched.when)) continue;
      const int64_t items = call.values.integer(launched.items);
      const int64_t repeat = launched.repeat < 0 ? 1 : call.values.integer(launched.repeat);
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
      call.constants.push_back(call.values.integer(named.node));
    }
    for (const Named& named : numbers_) {
      call.numbers.push_back(call.values.integer(named.node));
      if (!fits(call.numbers.back())) return false;
    }
    for (const Named& named : reals_) {
      call.reals.push_back(call.values.number(named.node).as_real());
    }
    for (const Named& named : lists_) {
      const Evaluation::List& given = call.values.list(named.node);
      if (given.size() > kTemplateList) return false;
      auto& list = call.lists.emplace_back();
      for (const ExpressionNumber& element : given) {
        list.push_back(element.as_integer());
        if (!fits(list.back())) return false;
      }
    }
    return true;
  });
  TORCH_CHECK_VALUE(!negative.has_value(), location_, ": the definition of ", overload_.name(),
                    " asks for a negative number of work-items or launches of the kernel '",
                    launches_[negative.value_or(0)].kernel, "'; write 0 where it is left out");
  return known;
}

void TemplateKernel::enqueue(Call& call) {
  if (call.launches.empty()) return;
  const WorkShape shape = work_shape(call.device);
  const uint64_t units = std::max<uint32_t>(device_properties(call.device).compute_units, 1);
  const ProgramKernels& kernel = kernels(call);
  for (const Call::Planned& planned : call.launches) {
    Grid grid;
    if (launches_[planned.launch].groups) {
      const auto local = static_cast<uint64_t>(call.lanes);
      grid = Grid::linear(std::min(planned.items, units * kGroupsPerUnit) * local, local);
    } else {
      grid = Grid::linear(planned.items, shape.local);
    }
    Kernel& launched = kernel(launches_[planned.launch].kernel);
    for (uint64_t step = 0; step < planned.repeat; ++step) {
      LaunchArguments arguments;
      add_arguments(call, arguments);
      add_layout(arguments, planned.items, call.wide);
      add_layout(arguments, step, call.wide);
      launch(current_stream_state(call.device), launched, grid, arguments);
    }
  }
}

}  // namespace outboard
