// A vendor's class of random number generators, registered with PyTorch. Its state is a seed and an
// offset, so the kernels of torch_outboard can draw from it.
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstring>

namespace {

class CounterGenerator final : public c10::GeneratorImpl {
 public:
  explicit CounterGenerator(c10::DeviceIndex device)
      : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, device),
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(uint64_t seed) override { counters_ = {seed, 0}; }
  uint64_t current_seed() const override { return counters_.seed; }
  uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return counters_.seed;
  }
  void set_offset(uint64_t offset) override { counters_.offset = offset; }
  uint64_t get_offset() const override { return counters_.offset; }

  // A CPU tensor of uint8: the seed, the offset.
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::Tensor state = at::empty({sizeof(counters_)}, at::kByte);
    std::memcpy(state.data_ptr(), &counters_, sizeof(counters_));
    return state.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& state) override {
    at::detail::check_rng_state(state);
    TORCH_CHECK(state.numel() == sizeof(counters_), "the state of a CounterGenerator has ",
                sizeof(counters_), " bytes, and ", state.numel(), " were given");
    std::memcpy(&counters_, state.data(), sizeof(counters_));
  }

 private:
  CounterGenerator* clone_impl() const override {
    auto* copy = new CounterGenerator(device().index());
    copy->counters_ = counters_;
    return copy;
  }

  struct {
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  } counters_;
};

at::Generator make_counter_generator(c10::DeviceIndex device) {
  return at::make_generator<CounterGenerator>(device);
}

REGISTER_GENERATOR_PRIVATEUSE1(make_counter_generator)

bool is_counter(const std::optional<at::Generator>& generator) {
  return dynamic_cast<CounterGenerator*>(generator->unsafeGetGeneratorImpl()) != nullptr;
}

TORCH_LIBRARY(generator_example, library) {
  library.def("is_counter(Generator? generator) -> bool", &is_counter);
}

}  // namespace
