// The Fourier engine: discrete Fourier transforms along any dimensions, of any length.
//
// A row's properties:
//   kind     "complex" (argument `forward`), "from_real" (`onesided`) or "to_real"
//            (`last_dim_size`); all have `self`, `dim` and `normalization` (0: none, 1: by the root
//            of the number of elements of a transform, 2: by that number)
//   source   text of the kernels
//
// Results lie in memory as those of PyTorch's CPU kernels do: the dimensions that are not
// transformed come first.
#pragma once

#include <string>

#include "device_kernels/engine.h"
#include "device_kernels/fourier/fourier_kernels.h"
#include "device_kernels/kernel_table.h"

namespace outboard {

struct FourierCall;

class FourierKernel final : public EngineKernel {
 public:
  FourierKernel(const Row& row, const c10::FunctionSchema& schema);
  bool serve(torch::jit::Stack* stack, c10::DeviceIndex device) override;

 private:
  enum class Kind : uint8_t { kComplex, kFromReal, kToReal };
  struct Key {
    c10::DeviceIndex device;
    at::ScalarType dtype;
    bool wide;
    bool operator==(const Key& other) const {
      return device == other.device && dtype == other.dtype && wide == other.wide;
    }
  };

  // Dimensions in the order in which the result lies in memory; those of `dims` come last.
  static at::DimVector order(const at::Tensor& self, at::DimVector& dims, bool sort_last);
  at::Tensor compute(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                     int64_t last_size);
  at::Tensor complex_transform(FourierCall& call, const at::Tensor& self, at::DimVector dims,
                               bool sort_last);

  const std::string source_;
  Kind kind_;
  int self_, dim_, normalization_, option_;
  KernelTable<Key, const FourierKernels*> table_;
};

}  // namespace outboard
