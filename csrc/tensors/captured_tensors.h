// The tensors of a graph that the driver captured from a compiled graph: inputs are copied in
// before a replay, results are wrapped after it.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/export.h"
#include "runtime/streams/stream.h"

namespace outboard {

// Results lie in memory of the graph. Each replay wraps them in new storages, whose reference
// counts tell whether a result is in use. Used by one thread at a time.
class OUTBOARD_API CapturedTensors {
 public:
  // The inputs of a call; null where one is not a tensor.
  using Inputs = c10::ArrayRef<const at::Tensor*>;

  // A capture on the device's current stream. Access to a result of an earlier step raises
  // `message`.
  CapturedTensors(c10::DeviceIndex device, std::string message)
      : stream_(current_stream_state(device)), message_(std::move(message)) {}

  // An input that the graph reads at its address. Another address needs another capture.
  void add_fixed(size_t input, const at::Tensor& tensor) { fixed_.push_back({input, tensor}); }
  // An input that is copied into `buffer` before each replay, and back if `written`.
  void add_moving(size_t input, const at::Tensor& buffer, bool written);
  // The next result: not a tensor.
  void add_constant() { results_.push_back({Kind::kConstant}); }
  // The next result: an input or a view of it, `offset` elements after the input's first one.
  void add_view(size_t input, const at::Tensor& result, int64_t offset);
  // The next result: in memory of the graph.
  void add_result(const at::Tensor& result);

  // Indices of fixed inputs with another address or layout.
  std::vector<size_t> misplaced(Inputs inputs) const;
  // The results, in the order of their registration, after `run` has replayed the graph; undefined
  // tensors for constants. Returns nothing and does nothing if the inputs do not suit the capture,
  // results of the same step are in use, or the current stream is another one or captures.
  std::optional<std::vector<at::Tensor>> replay(Inputs inputs, int64_t step,
                                                const std::function<void()>& run);

 private:
  struct Layout {
    explicit Layout(const at::Tensor& tensor)
        : sizes(tensor.sizes().vec()), strides(tensor.strides().vec()), dtype(tensor.dtype()) {}
    bool suits(const at::Tensor& tensor) const {
      return tensor.sizes() == sizes && tensor.strides() == strides && tensor.dtype() == dtype;
    }
    std::vector<int64_t> sizes, strides;
    caffe2::TypeMeta dtype;
  };
  struct Fixed {
    Fixed(size_t input_, const at::Tensor& tensor)
        : input(input_), address(tensor.const_data_ptr()), layout(tensor) {}
    bool suits(const at::Tensor& tensor) const {
      return tensor.const_data_ptr() == address && layout.suits(tensor);
    }
    size_t input;
    const void* address;
    Layout layout;
  };
  struct Moving {
    size_t input;
    Layout layout;
    at::Tensor buffer;
    bool written;
  };
  enum class Kind { kConstant, kView, kMemory };
  struct Result {
    Kind kind;
    size_t index = 0;  // of an input for a view, else of a storage
    at::Tensor tensor = {};
    int64_t offset = 0;
  };

  bool suits(Inputs inputs) const;
  bool is_used() const;
  void copy_in(Inputs inputs);
  void copy_back(Inputs inputs);
  std::vector<at::Tensor> wrap_results(Inputs inputs);

  StreamState& stream_;
  const std::string message_;
  int64_t step_ = -1;  // of the last replay
  std::vector<Fixed> fixed_;
  std::vector<Moving> moving_;
  std::vector<Result> results_;
  std::vector<at::Storage> storages_;  // of results, in memory of the graph
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> given_;
};

}  // namespace outboard
