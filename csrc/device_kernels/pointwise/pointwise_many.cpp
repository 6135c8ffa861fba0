// Many calls of one expression, as from operators over lists of tensors, in few launches. A kernel
// takes the pointers of as many calls as fit into its arguments, and each work-group computes a
// part of one call.
#include <ATen/EmptyTensor.h>
#include <ATen/TensorIterator.h>

#include <algorithm>
#include <bit>

#include "device_kernels/kernel_types.h"
#include "device_kernels/pointwise/pointwise_launch.h"
#include "device_kernels/work_shape.h"

namespace outboard {

using at::ScalarType;

namespace {

// Memory that a call reads or writes.
struct Range {
  const char* begin;
  const char* end;
  bool written;
};

// Adds the memory of a call's operands, once for an operand updated in place.
void add_ranges(std::vector<Range>& ranges, const at::TensorIteratorBase& iterator) {
  const size_t first = ranges.size();
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) continue;
    const auto* begin = static_cast<const char*>(iterator.data_ptr(i));
    const at::TensorBase& tensor = iterator.tensor_base(i);
    const char* end = begin + at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                                               tensor.itemsize());
    const auto same = std::find_if(ranges.begin() + first, ranges.end(), [&](const Range& range) {
      return range.begin == begin && range.end == end;
    });
    if (same == ranges.end()) {
      ranges.push_back({begin, end, i < iterator.noutputs()});
    } else {
      same->written = same->written || i < iterator.noutputs();
    }
  }
}

// True if written memory overlaps another range.
bool conflict(std::vector<Range>& ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  const char* end = nullptr;
  const char* written_end = nullptr;
  for (const Range& range : ranges) {
    if (range.begin < (range.written ? end : written_end)) return true;
    end = std::max(end, range.end);
    if (range.written) written_end = std::max(written_end, range.end);
  }
  return false;
}

bool calls_conflict(const std::deque<PointwiseCall>& calls) {
  std::vector<Range> ranges;
  for (const PointwiseCall& call : calls) {
    if (call.iterator.numel() != 0) add_ranges(ranges, call.iterator);
  }
  return conflict(ranges);
}

}  // namespace

struct PointwiseLauncher::Member {
  const PointwiseCall* call;
  ManyKey key;
  bool one_element;  // matches any `key.single`
};

std::optional<PointwiseLauncher::Member> PointwiseLauncher::member(
    c10::DeviceIndex device, const PointwiseCall& call) const {
  const at::TensorIteratorBase& iterator = call.iterator;
  Member member{&call, {key_of(device, iterator, call.compute)}, iterator.numel() == 1};
  if (expression_.divisor.has_value() || member.key.key.wide) return std::nullopt;
  if (iterator.ndim() > 1 && !member.one_element) return std::nullopt;
  member.key.in_place.fill(-1);
  for (int i = 0; i < iterator.ntensors(); ++i) {
    if (is_value(iterator, i)) continue;
    const int input = i - iterator.noutputs();
    if (input >= 0) {
      const auto& operand = expression_.operands[input];
      if (operand.uniform) continue;
      if (operand.common) {
        if (iterator.tensor_base(i).numel() != 1) return std::nullopt;
        member.key.single |= uint32_t{1} << input;
        continue;
      }
    }
    if (member.one_element) continue;
    const int64_t stride = iterator.strides(i)[0];
    if (input >= 0 && stride == 0) {
      member.key.single |= uint32_t{1} << input;
    } else if (stride != iterator.element_size(i)) {
      return std::nullopt;
    }
  }
  for (int o = 0; o < iterator.noutputs(); ++o) {
    for (int i = 0; i < iterator.ninputs() && member.key.in_place[o] < 0; ++i) {
      const int tensor = iterator.noutputs() + i;
      const auto& operand = expression_.operands[i];
      const bool same = !is_value(iterator, tensor) && !operand.uniform && !operand.common &&
                        ((member.key.single >> i) & 1) == 0 &&
                        iterator.data_ptr(tensor) == iterator.data_ptr(o) &&
                        iterator.dtype(tensor) == iterator.dtype(o);
      if (same) member.key.in_place[o] = static_cast<int8_t>(i);
    }
  }
  return member;
}

size_t PointwiseLauncher::capacity(const Member& member) const {
  const at::TensorIteratorBase& iterator = member.call->iterator;
  const size_t value = c10::elementSize(member.call->compute);
  size_t pointers = 0, bytes = 0, common = expression_.condition.empty() ? 0 : 1, common_bytes = 0;
  const auto add = [&](bool listed, bool is_pointer) {
    if (is_pointer) {
      (listed ? pointers : common) += 1;
    } else {
      (listed ? bytes : common_bytes) += value;
    }
  };
  for (int o = 0; o < iterator.noutputs(); ++o) {
    if (member.key.in_place[o] < 0) add(true, true);
  }
  for (int i = 0; i < iterator.ninputs(); ++i) {
    add(!expression_.operands[i].common, !is_value(iterator, iterator.noutputs() + i));
  }
  for (const bool listed : expression_.listed_scalars) add(listed, false);
  return most_calls(member.key.key.device, pointers, bytes, common, common_bytes);
}

namespace {

// One argument with a value per call, as an array.
template <class Add>
void add_values(LaunchArguments& arguments, size_t count, size_t room, const Add& add) {
  LaunchArguments single;
  for (size_t c = 0; c < count; ++c) add(single, c);
  const uint32_t size = single.data()[0].size;
  std::array<std::byte, 2048> values = {};
  TORCH_INTERNAL_ASSERT(room * size <= values.size());
  for (size_t c = 0; c < count; ++c) {
    std::memcpy(values.data() + c * size, single.data()[c].value, size);
  }
  arguments.bytes(values.data(), room * size);
}

}  // namespace

void PointwiseLauncher::enqueue_many(c10::ArrayRef<Member*> members, const void* flag) {
  const Member& model = *members[0];
  const c10::DeviceIndex device = model.key.key.device;
  const Kernels& many = many_.find(model.key, [&] {
    return make_kernels(model.key, model.call->iterator, model.call->compute);
  });
  const auto room = static_cast<size_t>(model.key.calls);
  const auto iterator_of = [&](size_t c) -> const at::TensorIteratorBase& {
    return members[std::min(c, members.size() - 1)]->call->iterator;
  };
  const at::TensorIteratorBase& iterator = iterator_of(0);
  const int outputs = iterator.noutputs();
  const auto add_value = [&](LaunchArguments& arguments, size_t c, int input) {
    const at::TensorIteratorBase& of = iterator_of(c);
    add_element(arguments, of.data_ptr(outputs + input), of.dtype(outputs + input),
                expression_.operands[input].mask ? ScalarType::Bool : model.call->compute);
  };
  LaunchArguments arguments;
  for (size_t c = 0; c < room; ++c) {
    for (int i = 0; i < iterator.ntensors(); ++i) {
      const int input = i - outputs;
      const bool listed = input < 0 ? model.key.in_place[i] < 0
                                    : !is_value(iterator, i) && !expression_.operands[input].common;
      if (listed) arguments.address(iterator_of(c).data_ptr(i));
    }
  }
  for (int i = 0; i < iterator.ninputs(); ++i) {
    const bool by_value = is_value(iterator, outputs + i);
    if (!by_value && expression_.operands[i].common) {
      arguments.address(iterator.data_ptr(outputs + i));
    }
  }
  for (const bool common : {false, true}) {
    for (int i = 0; i < iterator.ninputs(); ++i) {
      if (!is_value(iterator, outputs + i) || expression_.operands[i].common != common) continue;
      if (common) {
        add_value(arguments, 0, i);
      } else {
        add_values(arguments, members.size(), room,
                   [&](LaunchArguments& to, size_t c) { add_value(to, c, i); });
      }
    }
    for (size_t s = 0; s < expression_.listed_scalars.size(); ++s) {
      if (expression_.listed_scalars[s] == common) continue;
      const auto add = [&](LaunchArguments& to, size_t c) {
        add_scalar(to, members[c]->call->scalars[s], model.call->compute);
      };
      if (common) {
        add(arguments, 0);
      } else {
        add_values(arguments, members.size(), room, add);
      }
    }
  }
  const auto local = static_cast<uint64_t>(work_shape(device).local);
  const uint64_t elements = local * static_cast<uint64_t>(many.elements * many.parts);
  CallTable table(room);
  for (size_t c = 0; c < members.size(); ++c) {
    table.add(static_cast<uint64_t>(iterator_of(c).numel()), elements);
  }
  table.add_to(arguments);
  if (!expression_.condition.empty()) arguments.address(flag);
  many.kernel.launch("many", table.groups() * local, local, arguments);
}

void PointwiseLauncher::enqueue_all(c10::DeviceIndex device, const std::deque<PointwiseCall>& calls,
                                    const void* flag) {
  std::vector<Member> members;
  const bool together = calls.size() > 1 && !calls_conflict(calls);
  for (const PointwiseCall& call : calls) {
    if (call.iterator.numel() == 0) continue;
    if (auto found = together ? member(device, call) : std::nullopt) {
      members.push_back(*found);
    } else {
      enqueue(device, call.iterator, call.compute, call.scalars, flag);
    }
  }
  std::vector<Member*> alike;
  while (!members.empty()) {
    // Calls with one element match any other.
    const auto some = std::find_if(members.begin(), members.end(),
                                   [](const Member& m) { return !m.one_element; });
    const Member model = some == members.end() ? members[0] : *some;
    alike.clear();
    const auto is_alike = [&](const Member& m) {
      return m.key.key == model.key.key && m.key.in_place == model.key.in_place &&
             (m.one_element || m.key.single == model.key.single);
    };
    const auto others = std::stable_partition(members.begin(), members.end(), is_alike);
    for (auto m = members.begin(); m != others; ++m) {
      m->key.single = model.key.single;
      alike.push_back(&*m);
    }
    const size_t most = capacity(model);
    if (alike.size() < 2 || most < 2) {
      for (const Member* m : alike) {
        enqueue(device, m->call->iterator, m->call->compute, m->call->scalars, flag);
      }
    } else {
      // One program per list, also for its end; powers of 2 limit the programs of all list lengths.
      const size_t room = std::min(most, std::bit_ceil(alike.size()));
      for (size_t begin = 0; begin < alike.size(); begin += room) {
        alike[begin]->key.calls = static_cast<int>(room);
        enqueue_many({alike.data() + begin, std::min(room, alike.size() - begin)}, flag);
      }
    }
    members.erase(members.begin(), others);
  }
}

}  // namespace outboard
