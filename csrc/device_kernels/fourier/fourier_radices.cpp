#include "device_kernels/fourier/fourier_radices.h"

namespace outboard {

namespace {

// Beyond this prime factor Bluestein's algorithm needs fewer operations.
constexpr int64_t kLargestRadix = 61;

}  // namespace

c10::SmallVector<int64_t, 16> fourier_radices(int64_t n) {
  c10::SmallVector<int64_t, 16> radices;
  for (const int64_t radix : {8, 4, 2, 5, 3}) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  for (int64_t radix = 7; n > 1 && radix <= kLargestRadix; radix += 2) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  if (n > 1) radices.clear();
  return radices;
}

}  // namespace outboard
