"""Examples whose library is loaded before the kit, after it, or after its first use."""

import pytest

from tests.examples.running import ROOT, run_in_order, source_file

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
# Orders concern PyTorch's dispatcher, and each configuration has one.
orders = pytest.mark.parametrize(
    ("order", "configuration"), [("before", "shared"), ("after", "separate"), ("late", "ocl")]
)

STUBS = """
import ctypes
(path,) = (path for path in torch.ops.loaded_libraries if name in path)
calls = ctypes.CDLL(path).stub_calls
print(x.abs().tolist(), torch.hypot(x, x).dtype, calls())
with torch_outboard.fallback.report() as report:
    x.abs()
print({row.op: row.placement for row in report.rows}["aten::abs.out"])
kernel = torch_outboard.registrations("aten::abs")[0]
print(kernel.source, kernel.origin.rpartition("/")[2].partition(":")[0], kernel.follows)
"""


@pytest.mark.parametrize(
    ("order", "configuration"),
    [("before", "shared"), ("after", "separate"), ("registering", "ocl")],
)
def test_stubs(order, configuration):
    source = EXAMPLES / "stubs" / "stubs.cpp"
    assert run_in_order(order, configuration, "stubs_example", source, STUBS) == [
        "[1.0, 2.0] torch.float32 2",
        "device",
        "vendor stubs.cpp True",
    ]


FALLBACK = """
library = torch.library.Library("fallback_example", "DEF")
library.define("third(Tensor x) -> Tensor")
library.impl("third", lambda x: x / 4, "CPU")
print(torch.ops.fallback_example.third(x).tolist())
with torch_outboard.kernel("fallback_example::third")(lambda x: x * 3):
    print(torch.ops.fallback_example.third(x).tolist())
with torch_outboard.fallback.policy(deny=["fallback_example::third"]):
    torch_outboard.kernel("fallback_example::third", dtypes=[])(lambda x: x)
    try:
        torch.ops.fallback_example.third(x)
    except NotImplementedError as error:
        print("denied" in str(error))
"""


@pytest.mark.parametrize(
    ("order", "configuration"),
    [("before", "shared"), ("after", "separate"), ("registering", "ocl"), ("late", "shared")],
)
def test_a_vendors_fallback(order, configuration):
    source = EXAMPLES / "fallback" / "fallback.cpp"
    arguments = order, configuration, "fallback_example", source, FALLBACK
    if order == "late":  # PyTorch ends the process, and says what to do
        with pytest.raises(AssertionError, match="or in a `with torch_outboard"):
            run_in_order(*arguments)
        return
    assert run_in_order(*arguments) == [
        "  the vendor's fallback runs fallback_example::third",
        "[-0.25, 0.5]",
        "[-3.0, 6.0]",
        "True",
    ]


# Masks, their gradients, and who computes.
ATTENTION = """
from torch.nn.functional import scaled_dot_product_attention

torch.manual_seed(0)
inputs = [torch.randn(2, 3, n, 8) for n in (5, 7, 7)]

def attention(device, mask):
    tensors = [t.detach().to(device).requires_grad_() for t in (*inputs, mask)]
    result = scaled_dot_product_attention(*tensors[:3], attn_mask=tensors[3])
    result.square().sum().backward()
    return [result, *(t.grad for t in tensors if t.grad is not None)]

for mask in (torch.randn(2, 3, 5, 7), torch.randn(5, 7), torch.randn(2, 1, 1, 7)):
    found, expected = attention(device, mask), attention("cpu", mask)
    torch.testing.assert_close(found, expected, check_device=False, rtol=1e-4, atol=1e-5)
    assert len(found) == 5
with torch.profiler.profile() as profile:
    mask = torch.rand(5, 7).gt(0.3).to(device)
    scaled_dot_product_attention(*(t.to(device) for t in inputs), mask)
names = {event.key for event in profile.key_averages()}
print("aten::_scaled_dot_product_fused_attention_overrideable" in names)
"""
USE_ATTENTION = (
    "torch.nn.functional.scaled_dot_product_attention(*[torch.ones(2, 3, 5, 8, device=device)] * 3)"
)


@orders
def test_attention(order, configuration):
    arguments = "attention_example", EXAMPLES / "attention" / "attention.cpp", ATTENTION
    assert run_in_order(order, configuration, *arguments, use=USE_ATTENTION) == ["True"]


AUTOCAST = """
x = torch.ones(4, 4, device=device, dtype=torch.float16)
with torch.autocast(device, dtype=torch.bfloat16):
    print(torch.erf(x).dtype, torch.mm(x, x).dtype, torch.exp(x).dtype, x.neg().dtype,
          torch.ops.autocast_example.scaled_product(x, x, 1.0).dtype)
"""


@orders
def test_autocast(order, configuration):
    """A fallback and policies of a vendor's are kept, and PyTorch warns of no override."""
    source = EXAMPLES / "autocast" / "policies.cpp"
    (line,) = run_in_order(
        order, configuration, "autocast_example", source, AUTOCAST, PYTHONWARNINGS="error"
    )
    dtypes = ["float32", "bfloat16", "float32", "float16", "bfloat16"]
    assert line.split() == [f"torch.{dtype}" for dtype in dtypes]


AGAIN = """
from torch_outboard.device.serialization import set_tensor_metadata, tensor_metadata

def again(tensor, **options):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, **options)
"""
# Operators keep metadata where CPU's keep it.
METADATA = """
tiling = torch.ops.metadata_example.tiling

def kept(device):
    x = torch.ones(4, 4, device=device)
    torch.ops.metadata_example.set_tiling(x, 3)
    other = torch.zeros(4, 4, device=device)
    other.data = x
    module = torch.nn.Linear(4, 4, bias=False)
    module.weight = torch.nn.Parameter(x)
    copies = [x.detach(), x.data, torch.ops.aten.alias(x), x[:], x.view(16), x.t(), x.clone(),
              x.expand_as(x), x.contiguous(), x.to(device), x.to(torch.float64), copy.deepcopy(x),
              x + 1, other, torch.nn.Parameter(x), module.to(device).weight,
              copy.deepcopy(module).weight, x.detach_(), x.add_(1)]
    return [tiling(y) for y in copies]

print(kept(device) == kept("cpu"), set(kept(device)))
x = torch.ones(2, device=device)
torch.ops.metadata_example.set_tiling(x, 7)
print(tiling(again(x)), tiling(again(x, weights_only=False)), tiling(again(x, map_location="cpu")))
set_tensor_metadata(y := torch.ones(2, device=device), {"a": "b"})
print(tensor_metadata(again(y)), tiling(again(y)), tiling(again(x)))
print([tiling(z) for z in again({"x": x, "y": y}).values()])
"""


@orders
def test_backend_metadata(order, configuration):
    """A vendor's BackendMeta that is registered with PyTorch itself, beside the kit's strings."""
    source = EXAMPLES / "backend_metadata" / "metadata.cpp"
    printed = run_in_order(order, configuration, "metadata_example", source, AGAIN + METADATA)
    assert printed == ["True {0, 3}", "7 7 0", "{'a': 'b'} 0 7", "[7, 0]"]


# Attaches something to every tensor that it is asked about, as PyTorch's example of a device does.
CARELESS = """
#include <torch/csrc/jit/serialization/pickler_helper.h>
#include <torch/library.h>

namespace {

struct Mark final : c10::BackendMeta {};

void save(const at::Tensor&, std::unordered_map<std::string, bool>&) {}

void load(const at::Tensor& tensor, std::unordered_map<std::string, bool>&) {
  tensor.unsafeGetTensorImpl()->set_backend_meta(c10::make_intrusive<Mark>());
}

TORCH_LIBRARY(careless_metadata, library) {
  torch::jit::TensorBackendMetaRegistry(c10::DeviceType::PrivateUse1, &save, &load);
}

}  // namespace
"""
STRINGS = """
set_tensor_metadata(x := torch.ones(2, device=device), {"a": "b"})
print(tensor_metadata(again(x)), again(torch.ones(2, device=device)).tolist())
"""


def test_a_careless_vendor_does_not_disturb_strings():
    source = source_file("careless_metadata.cpp", CARELESS)
    printed = run_in_order("after", "shared", "careless_metadata", source, AGAIN + STRINGS)
    assert printed == ["{'a': 'b'} [1.0, 1.0]"]
