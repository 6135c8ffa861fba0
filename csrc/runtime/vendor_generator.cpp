#include "runtime/vendor_generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <optional>
#include <typeinfo>

#include "runtime/driver/device.h"

namespace outboard {

bool has_vendor_generator() { return at::GetGeneratorPrivate().has_value(); }

at::Generator make_vendor_generator(c10::DeviceIndex device) {
  at::Generator made = at::GetGeneratorPrivate().value()(device);
  TORCH_CHECK(made.defined() && made.device() == device_of(device),
              "the function registered with REGISTER_GENERATOR_PRIVATEUSE1 was asked for a "
              "generator of ",
              device_of(device), " and returned ",
              made.defined() ? "one of " + made.device().str() : "none",
              "; let its class set device_ to the device it is given");
  // PyTorch chooses the kernel of an operator by its generator, too.
  TORCH_CHECK(
      made.key_set() == c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      "the generators registered with REGISTER_GENERATOR_PRIVATEUSE1 have the dispatch keys ",
      made.key_set(),
      "; let their class set key_set_ to "
      "DispatchKeySet(DispatchKey::PrivateUse1)");
  return made;
}

PhiloxState reserve_from_vendor(c10::GeneratorImpl& generator, uint64_t draws) {
  if (auto* mersenne_twister = dynamic_cast<at::CPUGeneratorImpl*>(&generator)) {
    return {mersenne_twister->random64(), 0};
  }
  std::optional<uint64_t> offset;
  try {
    offset = generator.get_offset();
    generator.set_offset(*offset + draws);
  } catch (const c10::Error& error) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        false,
        "the kernels of torch_outboard draw from a seed and an offset, and the generator of ",
        generator.device(), " is of the vendor's class ", c10::demangle(typeid(generator).name()),
        ", which has no offset (", error.what_without_backtrace(),
        "); give it get_offset and set_offset, or register a kernel for the operator");
  }
  return {generator.current_seed(), *offset};
}

}  // namespace outboard
