// The device's random number generator: Philox4x32-10, whose whole state is (seed, offset).
#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <cstdint>
#include <optional>

#include "runtime/export.h"

namespace outboard {

// The start of one operator's random numbers. They are 32-bit words of Philox blocks with key =
// seed and counter = (block, offset). A block serves neighbouring elements in logical order, so
// numbers do not depend on threads, strides, vector width or device (random/distributions.h).
struct PhiloxState {
  uint64_t seed;
  uint64_t offset;
};

class OUTBOARD_API GeneratorImpl final : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex device);

  void set_current_seed(uint64_t seed) override;  // also resets the offset
  uint64_t current_seed() const override { return state_.seed; }
  uint64_t seed() override;  // non-deterministic
  void set_offset(uint64_t offset) override { state_.offset = offset; }
  uint64_t get_offset() const override { return state_.offset; }
  // 16 bytes, a uint8 CPU tensor: seed, offset.
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  GeneratorImpl* clone_impl() const override;

  PhiloxState state_ = {c10::default_rng_seed_val, 0};
};

// Default and new generators are of the class that a vendor registered with PyTorch
// (REGISTER_GENERATOR_PRIVATEUSE1), else GeneratorImpl.
//
// Seeds the default generators of all devices, also those made later.
OUTBOARD_API void seed_default_generators(uint64_t seed);
OUTBOARD_API const at::Generator& default_generator(c10::DeviceIndex device = -1);
OUTBOARD_API at::Generator make_generator(c10::DeviceIndex device = -1);
// Locks `generator`, or the default one if it is not given, and reserves `draws` offsets. One is
// enough unless an element needs more than 64 bits. Raises RuntimeError for a generator of another
// device, and NotImplementedError if a vendor's class has no offset or the current stream captures.
OUTBOARD_API PhiloxState reserve_philox(const std::optional<at::Generator>& generator,
                                        c10::DeviceIndex device, uint64_t draws);

}  // namespace outboard
