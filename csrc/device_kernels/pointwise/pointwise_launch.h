// Launches of an expression over the operands of a TensorIterator: programs per combination of
// dtypes, the kernel of a layout, and its arguments.
#pragma once

#include <ATen/TensorIterator.h>
#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/kernel_table.h"
#include "runtime/programs/device_assert.h"

namespace outboard {

// Dimension limit of the strided kernel, after collapsing.
constexpr int kPointwiseDimensions = 12;

struct PointwiseExpression {
  // A value of the compute dtype, the mask of a comparison, or the real value type of a complex
  // one.
  enum class Result : uint8_t { kValue, kMask, kReal };
  struct Operand {
    std::string name;  // in the expressions
    bool mask = false;
    bool uniform = false;  // one element, of any broadcast size
    bool common = false;   // shared by all calls of `enqueue_all`
  };
  std::vector<std::string> results;  // OpenCL C, one per output of the iterator
  std::vector<Operand> operands;     // its inputs
  std::vector<std::string> scalars;  // names of numbers
  std::vector<bool> listed_scalars;  // per scalar: differs between calls of `enqueue_all`
  // Names and scalar expressions that a work-group computes once from uniform operands and scalars.
  std::vector<std::pair<std::string, std::string>> once;
  Result kind = Result::kValue;
  bool scalar = false;            // valid for scalars only, not for vectors
  std::optional<size_t> divisor;  // the divisor of integers, checked for 0
  std::string operation;          // operator name in the error of a division by 0
  std::string condition;          // if it holds for an element, the call's flag is set
};

// One of the calls of enqueue_all. Iterators borrow tensors unless they own them; borrowed tensors
// must outlive the call.
struct PointwiseCall {
  at::TensorIterator iterator;
  at::ScalarType compute;
  c10::SmallVector<at::Scalar, 8> scalars;
};

class PointwiseLauncher {
 public:
  explicit PointwiseLauncher(PointwiseExpression expression) : expression_(std::move(expression)) {}

  const PointwiseExpression& expression() const noexcept { return expression_; }

  // True if integers are divided by a number that is 0. Such a call must not be enqueued.
  bool divides_by_zero(const at::TensorIteratorBase& iterator, at::ScalarType compute) const;

  // True if the kernels support the number of dimensions and operands of `iterator`.
  static bool takes(const at::TensorIteratorBase& iterator);

  // Enqueues the work on the current stream of `device`. `compute`: a value dtype. 0-dim CPU
  // operands become arguments. Does nothing for zero elements.
  void enqueue(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
               at::ScalarType compute, c10::ArrayRef<at::Scalar> scalars,
               const void* flag = nullptr);

  // The same for several calls, with the results of sequential calls. Takes few launches if
  // operands are contiguous and no call writes memory of another call.
  void enqueue_all(c10::DeviceIndex device, const std::deque<PointwiseCall>& calls,
                   const void* flag = nullptr);

 private:
  // Distinguishes kernels.
  struct Key {
    std::array<uint8_t, 16> dtypes = {};  // per operand, outputs first; last the compute dtype
    uint32_t values = 0;                  // bit i: operand i is an argument
    c10::DeviceIndex device = 0;
    bool wide = false;  // 64-bit indices
    bool operator==(const Key& other) const = default;
  };
  // Distinguishes kernels of many calls.
  struct ManyKey {
    Key key;
    std::array<int8_t, 16> in_place = {};  // per output the input with its memory, or -1
    uint32_t single = 0;                   // bit i: input i has one element
    int calls = 0;                         // per launch; 0: a kernel of one call
    bool operator==(const ManyKey& other) const = default;
  };
  struct Kernels {
    ProgramKernels kernel;
    int elements;  // per work-item, in each part
    int parts;     // of many calls, per work-group
  };
  struct Member;
  Key key_of(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
             at::ScalarType compute) const;
  // The call as one of many; nullopt if not supported.
  std::optional<Member> member(c10::DeviceIndex device, const PointwiseCall& call) const;
  // Largest number of calls per launch, by the room for arguments.
  size_t capacity(const Member& member) const;
  void enqueue_many(c10::ArrayRef<Member*> members, const void* flag);
  // The operand that divides integers.
  std::optional<int> integer_divisor(const at::TensorIteratorBase& iterator,
                                     at::ScalarType compute) const;
  // True if the kernel checks the elements of the divisor for zeros.
  bool checks_divisor(const at::TensorIteratorBase& iterator, at::ScalarType compute) const;
  DeviceAssert& division_assert(c10::DeviceIndex device);
  // Elements of a vector; 1 for complex values, which have no vectors.
  int width(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
            at::ScalarType compute) const;
  Kernels make_kernels(const ManyKey& key, const at::TensorIteratorBase& iterator,
                       at::ScalarType compute, bool crossed = false) const;
  // True if there is a kernel for crossed inputs.
  bool can_cross(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                 at::ScalarType compute) const;

  const PointwiseExpression expression_;
  KernelTable<Key, Kernels> kernels_;
  KernelTable<Key, Kernels> crossed_;
  KernelTable<ManyKey, Kernels> many_;
  KernelTable<c10::DeviceIndex, DeviceAssert*> division_asserts_;
};

// True if operand `i` is a kernel argument.
inline bool is_value(const at::TensorIteratorBase& iterator, int i) {
  return i >= iterator.noutputs() && iterator.is_cpu_scalar(i);
}

}  // namespace outboard
