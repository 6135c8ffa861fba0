// Launching an expression over the operands of a TensorIterator: programs per combination of
// dtypes, the kernel for the layout at hand, and its arguments.
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
#include "device_kernels/pointwise/pointwise_source.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/programs/program.h"

namespace outboard {

struct PointwiseExpression {
  struct Operand {
    std::string name;  // in the expressions
    bool mask = false;
    bool uniform = false;  // one element, whatever the others have
    bool common = false;   // the same in all calls of `enqueue_all`
  };
  std::vector<std::string> results;  // OpenCL C, one per output of the iterator
  std::vector<Operand> operands;     // its inputs
  std::vector<std::string> scalars;  // names of numbers
  std::vector<bool> listed_scalars;  // which of them differ between the calls of `enqueue_all`
  std::vector<std::pair<std::string, std::string>> once;  // as in pointwise_source.h
  PointwiseSource::Result kind = PointwiseSource::Result::kValue;
  bool scalar = false;            // it holds for scalars alone, not for vectors
  std::optional<size_t> divisor;  // operand by which integers must not be divided where it is 0
  std::string operation;          // what is said to have divided
  std::string condition;          // where it holds for an element, the flag of a call is set
};

// One of several calls that are made at once. Iterators borrow tensors unless they are told to own
// them: those live as long.
struct PointwiseCall {
  at::TensorIterator iterator;
  at::ScalarType compute;
  c10::SmallVector<at::Scalar, 8> scalars;
};

class PointwiseLauncher {
 public:
  explicit PointwiseLauncher(PointwiseExpression expression) : expression_(std::move(expression)) {}

  const PointwiseExpression& expression() const noexcept { return expression_; }

  // Whether integers are divided by a number that is 0: the call must not be enqueued.
  bool divides_by_zero(const at::TensorIteratorBase& iterator, at::ScalarType compute) const;

  // Whether `iterator` has no more dimensions and operands than the kernels take.
  static bool takes(const at::TensorIteratorBase& iterator);

  // Enqueues the work on the current stream of `device`. `compute` is a value dtype; 0-dim CPU
  // operands become arguments. Nothing happens for zero elements.
  void enqueue(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
               at::ScalarType compute, c10::ArrayRef<at::Scalar> scalars,
               const void* flag = nullptr);

  // The same for several calls, with the results of making them one after the other: in few
  // launches where operands are contiguous and no call writes what another one reads or writes.
  void enqueue_all(c10::DeviceIndex device, const std::deque<PointwiseCall>& calls,
                   const void* flag = nullptr);

 private:
  // What makes kernels differ.
  struct Key {
    std::array<uint8_t, 16> dtypes = {};  // per operand, outputs first; last the compute dtype
    uint32_t values = 0;                  // bit i: operand i is an argument
    c10::DeviceIndex device = 0;
    bool wide = false;  // indices of 64 bits
    bool operator==(const Key& other) const = default;
  };
  // What makes kernels of many calls differ.
  struct ManyKey {
    Key key;
    std::array<int8_t, 16> in_place = {};  // per output the input that has its memory, or -1
    uint32_t single = 0;                   // bit i: input i has one element
    int calls = 0;
    bool operator==(const ManyKey& other) const = default;
  };
  struct Many {
    Kernel* kernel;
    int elements;  // of one work item in each part
    int parts;
  };
  struct Member;
  struct Kernels {
    Kernel* contiguous;
    Kernel* strided;
    int elements;  // of one work item
  };
  Key key_of(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
             at::ScalarType compute) const;
  // How the call can be one of many; nullopt if it cannot.
  std::optional<Member> member(c10::DeviceIndex device, const PointwiseCall& call) const;
  // Most calls of one launch, by the room for arguments.
  size_t capacity(const Member& member) const;
  void enqueue_many(c10::ArrayRef<Member*> members, const void* flag);
  Many make_many(const ManyKey& key, const PointwiseCall& call) const;
  // Whether the kernel looks for zeros among the elements of the divisor.
  bool checks_divisor(const at::TensorIteratorBase& iterator, at::ScalarType compute) const;
  KernelFault& division_fault(c10::DeviceIndex device);
  PointwiseSource make_source(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                              at::ScalarType compute, bool wide) const;
  Kernels make_kernels(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                       at::ScalarType compute, bool wide) const;
  // For crossed inputs; null if these operands have no such kernel.
  Kernel* make_crossed(c10::DeviceIndex device, const at::TensorIteratorBase& iterator,
                       at::ScalarType compute, bool wide) const;

  const PointwiseExpression expression_;
  KernelTable<Key, Kernels> kernels_;
  KernelTable<Key, Kernel*> crossed_;
  KernelTable<ManyKey, Many> many_;
  KernelTable<c10::DeviceIndex, KernelFault*> division_faults_;
};

// Whether operand `i` reaches the kernel as an argument.
inline bool is_value(const at::TensorIteratorBase& iterator, int i) {
  return i >= iterator.noutputs() && iterator.is_cpu_scalar(i);
}

}  // namespace outboard
