#include "random/element_view.h"

#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>

#include <algorithm>
#include <limits>
#include <type_traits>

namespace outboard::random {
namespace {

template <class To, class From>
To convert_element(From value) {
  if constexpr (std::is_same_v<To, bool>) {
    return value != From(0);
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    // The largest value of a wide integer rounds up to a power of two here, hence >=.
    if (value >= static_cast<From>(std::numeric_limits<To>::max())) {
      return std::numeric_limits<To>::max();
    }
    if (value <= static_cast<From>(std::numeric_limits<To>::lowest())) {
      return std::numeric_limits<To>::lowest();
    }
    return static_cast<To>(value);
  } else if constexpr (sizeof(To) == 2 && !std::is_integral_v<To>) {
    return static_cast<To>(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

#define OUTBOARD_DISPATCH_ELEMENTS(type, ...)                                           \
  AT_DISPATCH_V2(type, "random numbers", AT_WRAP(__VA_ARGS__), AT_EXPAND(AT_ALL_TYPES), \
                 AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES), at::kBool, at::kHalf, at::kBFloat16)

}  // namespace

ElementView::ElementView(const at::Tensor& tensor)
    : data_(const_cast<void*>(tensor.const_data_ptr())),
      type_(tensor.scalar_type()),
      size_(tensor.numel()) {
  for (int64_t dim = 0; dim < tensor.dim(); ++dim) {
    const int64_t size = tensor.size(dim);
    const int64_t stride = tensor.stride(dim);
    if (size == 1) continue;
    if (!sizes_.empty() && strides_.back() == size * stride) {
      sizes_.back() *= size;
      strides_.back() = stride;
    } else {
      sizes_.push_back(size);
      strides_.push_back(stride);
    }
  }
  if (sizes_.empty()) {
    sizes_.push_back(size_);
    strides_.push_back(1);
  }
}

// Calls run(offset, stride, index in the run, count) for each piece of the innermost dimension.
template <class Run>
void ElementView::for_each_run(int64_t first, int64_t count, const Run& run) const {
  const auto dims = static_cast<int64_t>(sizes_.size());
  const int64_t inner_size = sizes_[dims - 1];
  c10::SmallVector<int64_t, 6> index = sizes_;
  int64_t rest = first;
  int64_t position = 0;
  for (int64_t dim = dims - 1; dim >= 0; --dim) {
    index[dim] = rest % sizes_[dim];
    rest /= sizes_[dim];
    position += index[dim] * strides_[dim];
  }
  int64_t done = 0;
  while (true) {
    const int64_t length = std::min(inner_size - index[dims - 1], count - done);
    run(position, strides_[dims - 1], done, length);
    done += length;
    if (done == count) return;
    position -= index[dims - 1] * strides_[dims - 1];
    index[dims - 1] = 0;
    for (int64_t dim = dims - 2; dim >= 0; --dim) {
      position += strides_[dim];
      if (++index[dim] < sizes_[dim]) break;
      position -= sizes_[dim] * strides_[dim];
      index[dim] = 0;
    }
  }
}

template <class Value>
void ElementView::load(int64_t first, int64_t count, Value* values) const {
  if (count == 0) return;
  OUTBOARD_DISPATCH_ELEMENTS(type_, [&] {
    const auto* data = static_cast<const scalar_t*>(data_);
    for_each_run(first, count, [&](int64_t position, int64_t stride, int64_t done, int64_t length) {
      for (int64_t i = 0; i < length; ++i) {
        values[done + i] = convert_element<Value>(data[position + i * stride]);
      }
    });
  });
}

template <class Value>
void ElementView::store(int64_t first, int64_t count, const Value* values) const {
  if (count == 0) return;
  OUTBOARD_DISPATCH_ELEMENTS(type_, [&] {
    auto* data = static_cast<scalar_t*>(data_);
    for_each_run(first, count, [&](int64_t position, int64_t stride, int64_t done, int64_t length) {
      for (int64_t i = 0; i < length; ++i) {
        data[position + i * stride] = convert_element<scalar_t>(values[done + i]);
      }
    });
  });
}

template void ElementView::load(int64_t, int64_t, float*) const;
template void ElementView::load(int64_t, int64_t, double*) const;
template void ElementView::store(int64_t, int64_t, const float*) const;
template void ElementView::store(int64_t, int64_t, const double*) const;
template void ElementView::store(int64_t, int64_t, const int64_t*) const;
template void ElementView::store(int64_t, int64_t, const uint8_t*) const;

}  // namespace outboard::random
