#include "runtime/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>
#include <c10/util/Type.h>

#include <cstring>
#include <map>
#include <mutex>
#include <typeinfo>
#include <utility>

#include "runtime/driver/device.h"
#include "runtime/global.h"
#include "runtime/streams/stream.h"

namespace outboard {
namespace {

bool has_vendor_generator() { return at::GetGeneratorPrivate().has_value(); }

// A generator of the vendor's class. Raises RuntimeError if it is of another device, or would send
// operators to another one. `device` is not -1.
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

// The state for one operator that uses the counters of `draws` offsets:
// - from a class derived from at::CPUGeneratorImpl: its next 64 random bits, and offset 0;
// - from any other: its seed, and its offset, which advances by `draws`.
// Raises NotImplementedError if the class has no offset. The caller holds the generator's mutex_.
PhiloxState reserve(c10::GeneratorImpl& generator, uint64_t draws) {
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

constexpr size_t kStateBytes = sizeof(PhiloxState);

// If a vendor registers a class of generators after the first use, new default generators start
// from the last seed. The old ones live on: users may hold them.
struct Defaults {
  uint64_t seed = c10::default_rng_seed_val;
  // By whether they are of the vendor's class, and by device.
  std::map<std::pair<bool, c10::DeviceIndex>, at::Generator> generators;
};

void set_seed(at::Generator& generator, uint64_t seed) {
  std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex device)
    : c10::GeneratorImpl(device_of(device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void GeneratorImpl::set_current_seed(uint64_t seed) { state_ = {seed, 0}; }

uint64_t GeneratorImpl::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_.seed;
}

void GeneratorImpl::set_state(const c10::TensorImpl& new_state) {
  TORCH_CHECK_TYPE(new_state.device_type() == c10::DeviceType::CPU &&
                       new_state.dtype() == caffe2::TypeMeta::Make<uint8_t>(),
                   "the state of a generator is a CPU tensor of dtype uint8, not ",
                   new_state.dtype().name(), " on ", new_state.device());
  TORCH_CHECK(new_state.numel() == static_cast<int64_t>(kStateBytes) && new_state.is_contiguous(),
              "the state of this generator has ", kStateBytes, " bytes, and ", new_state.numel(),
              " were given; use a state that get_state() of the same backend returned");
  std::memcpy(&state_, new_state.data(), kStateBytes);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  at::Tensor state = at::empty({static_cast<int64_t>(kStateBytes)},
                               at::TensorOptions().dtype(at::kByte).device(at::kCPU));
  std::memcpy(state.data_ptr(), &state_, kStateBytes);
  return state.getIntrusivePtr();
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  copy->state_ = state_;
  return copy;
}

void seed_default_generators(uint64_t seed) {
  const Locked<Defaults> all;
  all->seed = seed;
  for (auto& [key, generator] : all->generators) set_seed(generator, seed);
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  if (device == -1) device = current_device();
  check_device_index(device);
  const std::pair key(has_vendor_generator(), device);
  {
    const Locked<Defaults> all;
    const auto found = all->generators.find(key);
    if (found != all->generators.end()) return found->second;
  }
  // Without the lock: the vendor's function may call back.
  at::Generator made = make_generator(device);
  const Locked<Defaults> all;
  const auto [entry, added] = all->generators.try_emplace(key, std::move(made));
  if (added) set_seed(entry->second, all->seed);
  return entry->second;
}

at::Generator make_generator(c10::DeviceIndex device) {
  if (device == -1) device = current_device();
  check_device_index(device);
  if (has_vendor_generator()) return make_vendor_generator(device);
  return at::make_generator<GeneratorImpl>(device);
}

PhiloxState reserve_philox(const std::optional<at::Generator>& generator, c10::DeviceIndex device,
                           uint64_t draws) {
  const at::Generator& chosen =
      generator.has_value() && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(chosen.device().type() == c10::DeviceType::PrivateUse1, "a generator of ",
              chosen.device(), " was given for a tensor on ", device_of(device),
              "; make one with torch.Generator(device=...)");
  TORCH_CHECK(chosen.device().index() == device, "a generator of ", chosen.device(),
              " was given for a tensor on ", device_of(device), "; use one of the same device");
  // Seed and offset are arguments of the launch, which a graph captures.
  TORCH_CHECK_NOT_IMPLEMENTED(
      !current_stream_state(device).capturing.load(std::memory_order_acquire),
      "random numbers were drawn while a graph is captured, and every replay would draw the same; "
      "draw them before each replay, into a tensor that the graph reads");
  c10::GeneratorImpl* impl = chosen.unsafeGetGeneratorImpl();
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return reserve(*impl, draws);
}

}  // namespace outboard
