// A driver with library calls, for tests: the driver that LIBRARY_DRIVER_BASE names, with naive
// loops on the host as its library. Where the host may touch device memory they run on the queue,
// else on copies, and the call waits.
#include <dlfcn.h>
#include <outboard/driver.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <complex>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

// Variables that the tests set and read.
enum Mode : unsigned {
  kDeclines = 1,       // everything
  kFails = 2,          // everything
  kNoBias = 4,         // declines vectors that are added
  kOnlyInPlace = 8,    // declines what is added, unless it is the output
  kNoWeightPass = 16,  // declines that pass
  kDeclinesLate = 32,  // says yes to the query and declines the call
};
enum Count {
  kProducts,
  kForward,
  kBackwardInput,
  kBackwardWeight,
  kBiases,
  kInPlace,
  kActivations,
  kDeterministic,
  kReduced,
  kQueries,
  kCounts
};
std::atomic<unsigned> mode{0};
std::atomic<uint64_t> counts[kCounts];
constexpr uint64_t kWorkspace = 256;

const ob_driver* base;
thread_local const char* message = nullptr;

ob_status fail(ob_status status, const char* words) {
  message = words;
  return status;
}

// One call, with copies of what the description points to.
struct Work {
  bool is_product;
  ob_matrix_product product;
  ob_convolution convolution;
  std::array<ob_tensor, 5> tensors;  // those of the description, in its order
  std::array<bool, 5> present{};
  std::array<char*, 5> memory{};  // where the host finds the elements
};

template <class T>
struct SumOf {
  using type = std::conditional_t<std::is_integral_v<T>, int64_t, double>;
};
template <class T>
struct SumOf<std::complex<T>> {
  using type = std::complex<double>;
};

template <class T>
double activate(double x, ob_activation activation) {
  switch (activation) {
    case OB_ACTIVATION_RELU:
      return std::isnan(x) ? x : std::max(x, 0.0);
    case OB_ACTIVATION_GELU:
      return x / 2 * (1 + std::erf(x / std::sqrt(2.0)));
    case OB_ACTIVATION_GELU_TANH:
      return x / 2 * (1 + std::tanh(std::sqrt(M_2_PI) * (x + 0.044715 * x * x * x)));
    case OB_ACTIVATION_SILU:
      return x / (1 + std::exp(-x));
    default:
      return x;
  }
}
template <class T, class Sum>
Sum activate(Sum x, ob_activation) {
  return x;
}

// An element by its indices; the last ones belong to the tensor's dimensions.
template <class T, class... Index>
T& at(Work& work, int which, Index... index) {
  const std::array<int64_t, sizeof...(Index)> all = {index...};
  const ob_tensor& tensor = work.tensors[which];
  int64_t offset = 0;
  for (uint32_t d = 0; d < tensor.dimensions; ++d) offset += all[d] * tensor.strides[d];
  return reinterpret_cast<T*>(work.memory[which])[offset];
}

template <class Sum>
Sum factor(const double (&parts)[2]) {
  if constexpr (std::is_same_v<Sum, std::complex<double>>) {
    return {parts[0], parts[1]};
  } else {
    return static_cast<Sum>(parts[0]);
  }
}

enum ProductOperand { kA, kB, kOut, kAdded, kBias };

template <class T>
void multiply(Work& work) {
  using Sum = typename SumOf<T>::type;
  const ob_matrix_product& d = work.product;
  const ob_tensor& out = work.tensors[kOut];
  for (int64_t b = 0; b < out.sizes[0]; ++b) {
    for (int64_t i = 0; i < out.sizes[1]; ++i) {
      for (int64_t j = 0; j < out.sizes[2]; ++j) {
        Sum sum = 0;
        for (int64_t k = 0; k < work.tensors[kA].sizes[2]; ++k) {
          sum += static_cast<Sum>(at<T>(work, kA, b, i, k)) *
                 static_cast<Sum>(at<T>(work, kB, b, k, j));
        }
        sum *= factor<Sum>(d.alpha);
        if (work.present[kAdded]) {
          sum += factor<Sum>(d.beta) * static_cast<Sum>(at<T>(work, kAdded, b, i, j));
        }
        if (work.present[kBias]) {
          sum += static_cast<Sum>(at<T>(work, kBias, d.bias_dimension == 1 ? i : j));
        }
        at<T>(work, kOut, b, i, j) = static_cast<T>(activate<T>(sum, d.activation));
      }
    }
  }
}

enum ConvolutionOperand { kInput, kWeight, kOutput, kChannels };

// With three spatial dimensions; a tensor may lack the last ones.
template <class T>
void convolve(Work& work) {
  using Sum = typename SumOf<T>::type;
  const ob_convolution& d = work.convolution;
  for (int which : {kInput, kWeight, kOutput}) {
    ob_tensor& tensor = work.tensors[which];
    for (uint32_t i = tensor.dimensions; i < 5; ++i) tensor.sizes[i] = 1;
  }
  const auto& in = work.tensors[kInput].sizes;
  const auto& kernel = work.tensors[kWeight].sizes;
  const auto& out = work.tensors[kOutput].sizes;
  const int written = d.pass == OB_CONVOLUTION_FORWARD          ? kOutput
                      : d.pass == OB_CONVOLUTION_BACKWARD_INPUT ? kInput
                                                                : kWeight;
  const auto& sizes = work.tensors[written].sizes;
  const auto offset = [&](int64_t a, int64_t b, int64_t x, int64_t y, int64_t z) {
    return (((a * sizes[1] + b) * sizes[2] + x) * sizes[3] + y) * sizes[4] + z;
  };
  std::vector<Sum> sums(sizes[0] * sizes[1] * sizes[2] * sizes[3] * sizes[4], Sum(0));
  const int64_t channels = out[1] / d.groups;
  for (int64_t n = 0; n < out[0]; ++n)
    for (int64_t o = 0; o < out[1]; ++o)
      for (int64_t c = 0; c < kernel[1]; ++c)
        for (int64_t x = 0; x < out[2]; ++x)
          for (int64_t y = 0; y < out[3]; ++y)
            for (int64_t z = 0; z < out[4]; ++z)
              for (int64_t i = 0; i < kernel[2]; ++i)
                for (int64_t j = 0; j < kernel[3]; ++j)
                  for (int64_t k = 0; k < kernel[4]; ++k) {
                    const int64_t u = x * d.stride[0] + i * d.dilation[0] - d.padding[0];
                    const int64_t v = y * d.stride[1] + j * d.dilation[1] - d.padding[1];
                    const int64_t w = z * d.stride[2] + k * d.dilation[2] - d.padding[2];
                    if (u < 0 || u >= in[2] || v < 0 || v >= in[3] || w < 0 || w >= in[4]) continue;
                    const int64_t m = o / channels * kernel[1] + c;
                    const auto image = [&] { return Sum(at<T>(work, kInput, n, m, u, v, w)); };
                    const auto filter = [&] { return Sum(at<T>(work, kWeight, o, c, i, j, k)); };
                    const auto result = [&] { return Sum(at<T>(work, kOutput, n, o, x, y, z)); };
                    if (written == kOutput) sums[offset(n, o, x, y, z)] += image() * filter();
                    if (written == kInput) sums[offset(n, m, u, v, w)] += result() * filter();
                    if (written == kWeight) sums[offset(o, c, i, j, k)] += result() * image();
                  }
  for (int64_t a = 0; a < sizes[0]; ++a)
    for (int64_t b = 0; b < sizes[1]; ++b)
      for (int64_t x = 0; x < sizes[2]; ++x)
        for (int64_t y = 0; y < sizes[3]; ++y)
          for (int64_t z = 0; z < sizes[4]; ++z) {
            Sum sum = sums[offset(a, b, x, y, z)];
            if (work.present[kChannels]) sum += static_cast<Sum>(at<T>(work, kChannels, b));
            at<T>(work, written, a, b, x, y, z) = static_cast<T>(activate<T>(sum, d.activation));
          }
}

template <class T>
void compute_on(Work& work) {
  if (work.is_product) {
    multiply<T>(work);
  } else if constexpr (std::is_arithmetic_v<T>) {
    convolve<T>(work);
  }
}

bool has_dtype(uint32_t dtype, bool product) {
  uint32_t known = OB_DTYPE_FLOAT32 | OB_DTYPE_FLOAT64 | OB_DTYPE_INT64;
  if (product) known |= OB_DTYPE_COMPLEX64;
  return (dtype & known) != 0;
}

void compute(Work& work) {
  switch (work.tensors[0].dtype) {
    case OB_DTYPE_FLOAT32:
      return compute_on<float>(work);
    case OB_DTYPE_FLOAT64:
      return compute_on<double>(work);
    case OB_DTYPE_INT64:
      return compute_on<int64_t>(work);
    case OB_DTYPE_COMPLEX64:
      return compute_on<std::complex<float>>(work);
    default:
      std::abort();
  }
}

uint64_t bytes_of(const ob_tensor& tensor) {
  uint64_t elements = 1;
  for (uint32_t d = 0; d < tensor.dimensions; ++d) {
    elements += (tensor.sizes[d] - 1) * tensor.strides[d];
  }
  return elements * (tensor.dtype == OB_DTYPE_FLOAT32 ? 4 : 8);
}

bool shares_memory() {
  static const bool shares = [] {
    ob_device_properties properties = {};
    properties.struct_size = sizeof(properties);
    base->device_properties(base->context, 0, &properties);
    return properties.host_access == OB_HOST_ACCESS_COHERENT;
  }();
  return shares;
}

ob_status run_on_copies(ob_queue queue, Work& work, int written) {
  std::array<std::vector<char>, 5> copies;
  ob_status status = OB_OK;
  for (int i = 0; i < 5 && status == OB_OK; ++i) {
    if (!work.present[i]) continue;
    copies[i].resize(bytes_of(work.tensors[i]));
    work.memory[i] = copies[i].data();
    status = base->copy_device_to_host(base->context, queue, copies[i].data(), work.tensors[i].data,
                                       copies[i].size());
  }
  if (status == OB_OK) status = base->queue_synchronize(base->context, queue);
  if (status != OB_OK) return status;
  const ob_address result = work.tensors[written].data;
  compute(work);
  status = base->copy_host_to_device(base->context, queue, result, copies[written].data(),
                                     copies[written].size());
  return status == OB_OK ? base->queue_synchronize(base->context, queue) : status;
}

void compute_later(void* work) { compute(*static_cast<Work*>(work)); }

// The work of a call is kept for ever: a graph may do it again.
ob_status run(ob_queue queue, Work work, int written) {
  if (!shares_memory()) return run_on_copies(queue, work, written);
  for (int i = 0; i < 5; ++i) {
    if (work.present[i]) work.memory[i] = reinterpret_cast<char*>(work.tensors[i].data);
  }
  return base->host_callback(base->context, queue, compute_later, new Work(work));
}

template <class Description>
ob_status begin(const Description& description, uint32_t dtype, bool product, bool& asked) {
  asked = description.workspace_query != nullptr;
  if (asked) ++counts[kQueries];
  const unsigned now = mode.load();
  if ((now & kFails) != 0) return fail(OB_ERROR, "The library is out of order.");
  if ((now & kDeclines) != 0 || !has_dtype(dtype, product)) return OB_UNSUPPORTED;
  if (!asked && (now & kDeclinesLate) != 0) return OB_UNSUPPORTED;
  if (description.struct_size != sizeof(Description)) {
    return fail(OB_INVALID_ARGUMENT, "A description of another size.");
  }
  if (asked) {
    *description.workspace_query = kWorkspace;
  } else if (description.workspace == 0 || description.workspace_bytes != kWorkspace) {
    return fail(OB_INVALID_ARGUMENT, "The library asked for another workspace.");
  }
  return OB_OK;
}

template <class Description>
void count(const Description& description, Count which) {
  ++counts[which];
  if (description.bias != nullptr) ++counts[kBiases];
  if (description.activation != OB_ACTIVATION_NONE) ++counts[kActivations];
  if ((description.flags & OB_LIBRARY_DETERMINISTIC) != 0) ++counts[kDeterministic];
  if ((description.flags & OB_LIBRARY_REDUCED_PRECISION) != 0) ++counts[kReduced];
}

void keep(Work& work, std::array<const ob_tensor*, 5> tensors) {
  for (int i = 0; i < 5; ++i) {
    work.present[i] = tensors[i] != nullptr;
    if (work.present[i]) work.tensors[i] = *tensors[i];
  }
}

ob_status matrix_product(void*, ob_queue queue, const ob_matrix_product* d) {
  const unsigned now = mode.load();
  const bool in_place = d->added == d->out || (d->added && d->added->data == d->out->data);
  if ((now & kNoBias) != 0 && d->bias != nullptr) return OB_UNSUPPORTED;
  if ((now & kOnlyInPlace) != 0 && (d->bias != nullptr || (d->added != nullptr && !in_place))) {
    return OB_UNSUPPORTED;
  }
  bool asked = false;
  const ob_status status = begin(*d, d->a->dtype, true, asked);
  if (status != OB_OK || asked) return status;
  count(*d, kProducts);
  if (d->added != nullptr && in_place) ++counts[kInPlace];
  Work work = {};
  work.is_product = true;
  work.product = *d;
  keep(work, {d->a, d->b, d->out, d->added, d->bias});
  return run(queue, work, kOut);
}

ob_status convolution(void*, ob_queue queue, const ob_convolution* d) {
  const unsigned now = mode.load();
  if ((now & kNoBias) != 0 && d->bias != nullptr) return OB_UNSUPPORTED;
  if ((now & kNoWeightPass) != 0 && d->pass == OB_CONVOLUTION_BACKWARD_WEIGHT) {
    return OB_UNSUPPORTED;
  }
  bool asked = false;
  const ob_status status = begin(*d, d->input->dtype, false, asked);
  if (status != OB_OK || asked) return status;
  count(*d, static_cast<Count>(kForward + d->pass));
  Work work = {};
  work.convolution = *d;
  keep(work, {d->input, d->weight, d->output, d->bias, nullptr});
  constexpr int kWritten[] = {kOutput, kInput, kWeight};
  return run(queue, work, kWritten[d->pass]);
}

const char* last_error(void*) {
  const char* words = std::exchange(message, nullptr);
  return words != nullptr ? words : base->last_error(base->context);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const ob_driver* ob_driver_table(void) {
  static ob_driver table;
  if (base == nullptr) {
    void* library = dlopen(std::getenv("LIBRARY_DRIVER_BASE"), RTLD_NOW);
    if (library == nullptr) return nullptr;
    base = reinterpret_cast<ob_driver_entry_point>(dlsym(library, OB_DRIVER_ENTRY_POINT))();
    table = *base;
    table.last_error = last_error;
    table.matrix_product = matrix_product;
    table.convolution = convolution;
  }
  return &table;
}

__attribute__((visibility("default"))) void library_set_mode(unsigned value) { mode = value; }
__attribute__((visibility("default"))) uint64_t library_count(int which) { return counts[which]; }
}
