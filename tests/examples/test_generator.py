"""Generators of vendors' classes, of other kinds than the example's."""

import pytest

from tests.examples.running import run_in_order, source_file

pytestmark = pytest.mark.slow


# Two classes: a Mersenne twister as PyTorch's example of a device has it, and one that is
# neither of the kit's kinds. MAKE chooses, so that one library serves all tests.
CLASSES = """
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/GeneratorForPrivateuseone.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <cstdlib>
#include <string>

namespace {

using c10::DeviceIndex;
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;

struct Twister final : at::CPUGeneratorImpl {
  explicit Twister(DeviceIndex device) {
    device_ = c10::Device(kType, device);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "a twister has no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "a twister has no offset"); }
};

struct Opaque final : c10::GeneratorImpl {
  explicit Opaque(DeviceIndex device)
      : c10::GeneratorImpl(c10::Device(kType, device),
                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
  void set_current_seed(uint64_t seed) override { seed_ = seed; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override { return seed_; }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "no offset here"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "no offset here"); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return at::empty({0}, at::kByte).getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl&) override {}
  GeneratorImpl* clone_impl() const override { return new Opaque(device().index()); }
  uint64_t seed_ = 0;
};

at::Generator make_any(DeviceIndex device) {
  const std::string kind = std::getenv("MAKE");
  if (kind == "twister") return at::make_generator<Twister>(device);
  if (kind == "opaque") return at::make_generator<Opaque>(device);
  if (kind == "other_device") return at::make_generator<Opaque>(device + 1);
  if (kind == "cpu") return at::make_generator<at::CPUGeneratorImpl>();
  return at::Generator();
}

REGISTER_GENERATOR_PRIVATEUSE1(make_any)

std::string kind(const std::optional<at::Generator>& generator) {
  if (dynamic_cast<Twister*>(generator->unsafeGetGeneratorImpl())) return "twister";
  return dynamic_cast<Opaque*>(generator->unsafeGetGeneratorImpl()) ? "opaque" : "other";
}

TORCH_LIBRARY(generator_classes, library) {
  library.def("kind(Generator? generator) -> str", &kind);
}

}  // namespace
"""

TWISTER = """
module = torch.get_device_module(device)
if order == "late":
    print(torch.ops.generator_classes.kind(kits))
    assert torch.rand(2, device=device, generator=kits).shape == (2,)
kind = torch.ops.generator_classes.kind
print(kind(module.default_generators[0]), kind(torch.Generator(device=device)))
print(module.initial_seed())
def draw():
    return [torch.rand(9, device=device), torch.randperm(9, device=device),
            torch.empty(9, device=device).geometric_(0.5),
            torch.multinomial(torch.ones(9, device=device), 3)]
torch.manual_seed(5)
state = module.get_rng_state()
drawn = draw()
module.set_rng_state(state)
print([torch.equal(a, b) for a, b in zip(drawn, draw())])
print(torch.equal(drawn[0], torch.rand(9, device=device)), state.numel() > 16)
"""


USE = """
    torch.manual_seed(3)
    kits = torch.get_device_module(device).default_generators[0]
    torch.rand(5, device=device)
"""


def run_classes(order: str, configuration: str, checks: str, make: str) -> list[str]:
    source = source_file("generator_classes.cpp", CLASSES)
    name = "generator_classes"
    return run_in_order(order, configuration, name, source, checks, use=USE.strip(), MAKE=make)


@pytest.mark.parametrize(
    ("order", "configuration"), [("before", "shared"), ("late", "separate"), ("late", "ocl")]
)
def test_a_class_derived_from_the_cpu_generator(order, configuration):
    """PyTorch's example has such a class; its bits seed the kit's kernels."""
    first, seed = (["other"], "3") if order == "late" else ([], "67280421310721")
    repeats = [str([True] * 4), "False True"]
    printed = run_classes(order, configuration, TWISTER, "twister")
    assert printed == [*first, "twister twister", seed, *repeats]


WHAT_IS_RAISED = """
for draw in (lambda: torch.rand(2, device=device), lambda: torch.Generator(device=device)):
    try:
        draw()
        print("no error")
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("opaque", "Opaque, which has no offset (no offset here); give it get_offset"),
        ("other_device", "and returned one of host:1; let its class set device_"),
        ("cpu", "and returned one of cpu; let its class set device_"),
        ("none", "and returned none"),
    ],
)
def test_classes_that_cannot_serve(kind, expected):
    printed = run_classes("before", "shared", WHAT_IS_RAISED, kind)
    if kind == "opaque":
        assert printed[0].startswith("NotImplementedError")
        assert printed[1] == "no error"
    else:
        assert printed[1].startswith("RuntimeError")
        assert expected in printed[1]
    assert expected in printed[0]
