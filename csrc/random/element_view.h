// The elements of a host tensor by logical index, one run at a time, for random kernels: any dtype
// and strides.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <cstdint>

namespace outboard::random {

class ElementView {
 public:
  // `tensor`: strided, of an integer, floating-point or bool dtype, in host-accessible memory. Must
  // outlive the view.
  explicit ElementView(const at::Tensor& tensor);

  int64_t size() const noexcept { return size_; }

  // Copies elements [first, first + count) from or to an array. Integers wrap; floating point to
  // integers saturates. Value: float, double, int64_t or uint8_t.
  template <class Value>
  void load(int64_t first, int64_t count, Value* values) const;
  template <class Value>
  void store(int64_t first, int64_t count, const Value* values) const;

  // Address of element `first` if the elements are contiguous Values, else null.
  template <class Value>
  Value* direct(int64_t first) const noexcept {
    const bool fits =
        strides_.size() == 1 && strides_[0] == 1 && type_ == c10::CppTypeToScalarType<Value>::value;
    return fits ? static_cast<Value*>(data_) + first : nullptr;
  }

 private:
  template <class Run>
  void for_each_run(int64_t first, int64_t count, const Run& run) const;

  void* data_;
  c10::ScalarType type_;
  int64_t size_;
  // At least one dimension; adjacent dimensions with matching strides are merged.
  c10::SmallVector<int64_t, 6> sizes_;
  c10::SmallVector<int64_t, 6> strides_;
};

}  // namespace outboard::random
