// The device's random number generator: Philox4x32-10, whose whole state is (seed, offset).
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <optional>

#include "runtime/export.h"

namespace outboard {

// Where one operator's random numbers begin. They are words of Philox blocks with key = seed and
// counter = (block, offset); a block serves neighbouring elements in logical order, so numbers
// depend on neither threads, strides, vector width nor device (random/distributions.h).
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

class OUTBOARD_API GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;  // also resets the offset
  uint64_t current_seed() const override;
  uint64_t seed() override;  // non-deterministic
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  // 16 bytes, a uint8 CPU tensor: seed, offset.
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  // The state for one operator that uses the counters of `draws` offsets; moves the offset on by
  // `draws`. One is enough unless an element needs more than 64 bits. The caller holds mutex_.
  PhiloxState reserve(uint64_t draws);

 private:
  GeneratorImpl* clone_impl() const override;

  uint64_t seed_;
  uint64_t offset_ = 0;
};

// Seeds the default generators of all devices. Before the device is first used this only stores the
// seed, for generators made later. Default and new generators are of the class that a vendor
// registered with PyTorch, if there is one (runtime/vendor_generator.h).
OUTBOARD_API void seed_default_generators(uint64_t seed);
OUTBOARD_API const at::Generator& default_generator(c10::DeviceIndex device = -1);
OUTBOARD_API at::Generator make_generator(c10::DeviceIndex device = -1);
// `generator` if given (raises unless it is on `device`), else the default one; locks it and
// reserves. Raises NotImplementedError where a vendor's class has nothing to reserve, and while the
// current stream is captured.
OUTBOARD_API PhiloxState reserve_philox(const std::optional<at::Generator>& generator,
                                        c10::DeviceIndex device, uint64_t draws);

}  // namespace outboard
