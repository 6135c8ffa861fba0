// Max pooling over rows of contiguous images. CPU's kernel computes one output after the other,
// this one a row of outputs at a time, which vectorizes. Results are equal, including ties and NaN.
#include <ATen/Parallel.h>
#include <ATen/native/Pool.h>
#include <ATen/ops/max_pool2d_with_indices_native.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cpu_kernels/typed/structured.h"

namespace outboard::cpu_kernels {

namespace {

struct Window {
  int32_t size, stride, padding, dilation;

  // The first input of output `o` that is not padding.
  int32_t first(int32_t o) const {
    int32_t i = o * stride - padding;
    while (i < 0) i += dilation;
    return i;
  }
  // The outputs for which tap `k` lies inside an image of `extent`.
  std::pair<int32_t, int32_t> outputs_inside(int32_t k, int32_t extent, int32_t outputs) const {
    const int32_t shift = k * dilation - padding;
    const int32_t low = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const int32_t high = extent <= shift ? 0 : (extent - shift - 1) / stride + 1;
    return {std::min(low, outputs), std::clamp(high, 0, outputs)};
  }
};

// One version per instruction set, chosen at load.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define OUTBOARD_PER_INSTRUCTION_SET \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define OUTBOARD_PER_INSTRUCTION_SET
#endif

// Replaces `best` by the taps `row[0]`, `row[stride]` ... at index, index + stride ... that are
// larger or NaN.
OUTBOARD_PER_INSTRUCTION_SET
void take_taps(const float* __restrict row, int32_t stride, int32_t index, int32_t count,
               float* __restrict best, int32_t* __restrict best_index) {
  if (stride == 1) {
    for (int32_t o = 0; o < count; ++o) {
      const float value = row[o];
      const bool take = (value > best[o]) | (value != value);
      best[o] = take ? value : best[o];
      best_index[o] = take ? index + o : best_index[o];
    }
  } else if (stride == 2) {
    for (int32_t o = 0; o < count; ++o) {
      const float value = row[2 * o];
      const bool take = (value > best[o]) | (value != value);
      best[o] = take ? value : best[o];
      best_index[o] = take ? index + 2 * o : best_index[o];
    }
  } else {
    for (int32_t o = 0; o < count; ++o) {
      const float value = row[stride * o];
      const bool take = (value > best[o]) | (value != value);
      best[o] = take ? value : best[o];
      best_index[o] = take ? index + stride * o : best_index[o];
    }
  }
}

struct Planes {
  const float* input;
  float* output;
  int64_t* indices;
  int32_t height, width, output_height, output_width;
  Window vertical, horizontal;
};

void pool_planes(const Planes& p, int64_t begin, int64_t end) {
  std::vector<int32_t> row_indices(static_cast<size_t>(p.output_width));
  const int64_t input_size = int64_t{p.height} * p.width;
  const int64_t output_size = int64_t{p.output_height} * p.output_width;
  for (int64_t plane = begin; plane < end; ++plane) {
    const float* input = p.input + plane * input_size;
    for (int32_t oh = 0; oh < p.output_height; ++oh) {
      float* best = p.output + plane * output_size + int64_t{oh} * p.output_width;
      const int32_t first_row = p.vertical.first(oh);
      for (int32_t ow = 0; ow < p.output_width; ++ow) {
        best[ow] = -std::numeric_limits<float>::infinity();
        row_indices[ow] = first_row * p.width + p.horizontal.first(ow);
      }
      for (int32_t kh = 0; kh < p.vertical.size; ++kh) {
        const int32_t ih = oh * p.vertical.stride - p.vertical.padding + kh * p.vertical.dilation;
        if (ih < 0 || ih >= p.height) continue;
        for (int32_t kw = 0; kw < p.horizontal.size; ++kw) {
          const auto [low, high] = p.horizontal.outputs_inside(kw, p.width, p.output_width);
          if (low >= high) continue;
          const int32_t iw =
              low * p.horizontal.stride - p.horizontal.padding + kw * p.horizontal.dilation;
          const int32_t index = ih * p.width + iw;
          take_taps(input + index, p.horizontal.stride, index, high - low, best + low,
                    row_indices.data() + low);
        }
      }
      std::copy(row_indices.begin(), row_indices.end(),
                p.indices + plane * output_size + int64_t{oh} * p.output_width);
    }
  }
}

// One value is for both dimensions.
int64_t at_or_last(at::IntArrayRef values, size_t i) {
  return values.size() > i ? values[i] : values.back();
}

bool is_pair(at::IntArrayRef values) { return values.size() == 1 || values.size() == 2; }

// Describes a call; false if it is invalid or too large for 32-bit indices.
bool describe(Planes& planes, const at::Tensor& self, at::IntArrayRef kernel_size,
              at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
              bool ceil_mode) {
  if (!is_pair(kernel_size) || !(stride.empty() || is_pair(stride)) || !is_pair(padding) ||
      !is_pair(dilation)) {
    return false;
  }
  int32_t* const extents[] = {&planes.height, &planes.width};
  int32_t* const outputs[] = {&planes.output_height, &planes.output_width};
  Window* const windows[] = {&planes.vertical, &planes.horizontal};
  for (size_t i = 0; i < 2; ++i) {
    const int64_t extent = self.size(self.dim() - 2 + static_cast<int64_t>(i));
    const int64_t size = at_or_last(kernel_size, i);
    const int64_t step = stride.empty() ? size : at_or_last(stride, i);
    const int64_t pad = at_or_last(padding, i);
    const int64_t spread = at_or_last(dilation, i);
    constexpr int64_t kMost = 1 << 15;
    if (size < 1 || step < 1 || spread < 1 || pad < 0 || extent < 1 || size > kMost ||
        step > kMost || spread > kMost || extent > kMost || pad > size / 2) {
      return false;
    }
    const int64_t output = at::native::pooling_output_shape_pad_lr<int64_t>(
        extent, size, pad, pad, step, spread, ceil_mode);
    if (output < 1) return false;
    *extents[i] = static_cast<int32_t>(extent);
    *outputs[i] = static_cast<int32_t>(output);
    *windows[i] = {static_cast<int32_t>(size), static_cast<int32_t>(step),
                   static_cast<int32_t>(pad), static_cast<int32_t>(spread)};
  }
  return int64_t{planes.height} * planes.width <= std::numeric_limits<int32_t>::max() / 2;
}

constexpr OverloadName kName = "max_pool2d_with_indices";

std::tuple<at::Tensor, at::Tensor> max_pool2d_with_indices(
    const at::Tensor& self, at::IntArrayRef kernel_size, at::IntArrayRef stride,
    at::IntArrayRef padding, at::IntArrayRef dilation, bool ceil_mode) {
  const Arguments arguments(self);
  Planes planes;
  if (arguments.on_one_device() &&
      runs_plainly(TypedOverload<kName>::entry(), arguments.device()) &&
      self.scalar_type() == at::kFloat && (self.dim() == 3 || self.dim() == 4) &&
      self.numel() > 0 && self.is_contiguous() &&
      self.suggest_memory_format() == at::MemoryFormat::Contiguous &&
      describe(planes, self, kernel_size, stride, padding, dilation, ceil_mode)) {
    StreamState& stream = current_stream_state(arguments.device());
    at::DimVector sizes(self.sizes());
    sizes[sizes.size() - 2] = planes.output_height;
    sizes[sizes.size() - 1] = planes.output_width;
    at::Tensor output = new_output(stream, sizes, {}, self.options());
    at::Tensor indices = new_output(stream, sizes, {}, self.options().dtype(at::kLong));
    synchronize_stream(stream);
    planes.input = self.const_data_ptr<float>();
    planes.output = output.mutable_data_ptr<float>();
    planes.indices = indices.mutable_data_ptr<int64_t>();
    const int64_t work_per_plane = int64_t{planes.output_height} * planes.output_width *
                                   planes.vertical.size * planes.horizontal.size;
    const int64_t count = self.numel() / (int64_t{planes.height} * planes.width);
    at::parallel_for(0, count, std::max<int64_t>(1, at::internal::GRAIN_SIZE / work_per_plane),
                     [&](int64_t begin, int64_t end) { pool_planes(planes, begin, end); });
    return {std::move(output), std::move(indices)};
  }
  return TypedOverload<kName>::routed<std::tuple<at::Tensor, at::Tensor>>(
      self, kernel_size, stride, padding, dilation, ceil_mode);
}

}  // namespace

OUTBOARD_DIRECT("max_pool2d_with_indices", max_pool2d_with_indices)

}  // namespace outboard::cpu_kernels
