// Launching an expression over the operands of a TensorIterator: programs per combination of
// dtypes, the kernel for the layout at hand, and its arguments.
#pragma once

#include <c10/core/Scalar.h>
#include <c10/util/ArrayRef.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device_kernels/kernel_table.h"
#include "device_kernels/pointwise/pointwise_source.h"
#include "runtime/programs/kernel_faults.h"
#include "runtime/programs/program.h"

namespace at {
struct TensorIteratorBase;
}

namespace outboard {

struct PointwiseExpression {
  struct Operand {
    std::string name;  // in the expressions
    bool mask = false;
    bool uniform = false;  // one element, whatever the others have
  };
  std::vector<std::string> results;  // OpenCL C, one per output of the iterator
  std::vector<Operand> operands;     // its inputs
  std::vector<std::string> scalars;  // names of numbers
  std::vector<std::pair<std::string, std::string>> once;  // as in pointwise_source.h
  PointwiseSource::Result kind = PointwiseSource::Result::kValue;
  bool scalar = false;            // it holds for scalars alone, not for vectors
  std::optional<size_t> divisor;  // operand by which integers must not be divided where it is 0
  std::string operation;          // what is said to have divided
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
               at::ScalarType compute, c10::ArrayRef<at::Scalar> scalars);

 private:
  // What makes kernels differ.
  struct Key {
    std::array<uint8_t, 16> dtypes = {};  // per operand, outputs first; last the compute dtype
    uint32_t values = 0;                  // bit i: operand i is an argument
    c10::DeviceIndex device = 0;
    bool wide = false;  // indices of 64 bits
    bool operator==(const Key& other) const = default;
  };
  struct Kernels {
    Kernel* contiguous;
    Kernel* strided;
    int elements;  // of one work item
  };
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
  KernelTable<c10::DeviceIndex, KernelFault*> division_faults_;
};

}  // namespace outboard
