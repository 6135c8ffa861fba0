"""A maker's BackendMeta that is registered with PyTorch itself, beside the kit's strings."""

from __future__ import annotations

import pytest

from tests.examples.running import ROOT, everywhere, run, run_example, source_file

pytestmark = pytest.mark.by_turns(6)


@pytest.mark.slow
@everywhere
def test_example(configuration):
    lines = run_example("backend_metadata", configuration).splitlines()
    assert lines[:2] == ["detach()   keeps the tiling", "Parameter  keeps the tiling"]
    assert lines[-2:] == [
        "saved, loaded and saved again: 2, 2; loaded to the CPU: 0",
        "a user's strings beside it: {'unit': 'mm'}",
    ]


LOADING = """
import copy, io, sys
import torch
from torch.utils.cpp_extension import load

name, source, order = sys.argv[1:]
if order == "kit first":
    import torch_outboard
load(name, [source], is_python_module=False)
import torch_outboard
from torch_outboard.device.serialization import set_tensor_metadata, tensor_metadata

device = torch_outboard.device_name()

def again(tensor, **options):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, **options)
"""

KEPT = """
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


@pytest.mark.slow
@pytest.mark.parametrize("order", ["kit first", "kit last"])
@everywhere
def test_what_keeps_metadata_is_what_keeps_it_on_the_cpu(tmp_path, order, configuration):
    program = tmp_path / "program.py"
    program.write_text(LOADING + KEPT)
    source = ROOT / "examples" / "backend_metadata" / "metadata.cpp"
    autoload = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if order == "kit last" else {}
    printed = run(
        program, configuration, "metadata_example", str(source), order, **autoload
    ).splitlines()
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


@pytest.mark.slow
def test_a_careless_maker_does_not_disturb_strings(tmp_path):
    program = tmp_path / "program.py"
    code = """
set_tensor_metadata(x := torch.ones(2, device=device), {"a": "b"})
print(tensor_metadata(again(x)), again(torch.ones(2, device=device)).tolist())
"""
    program.write_text(LOADING + code)
    source = source_file("careless_metadata.cpp", CARELESS)
    printed = run(program, "shared", "careless_metadata", str(source), "kit first")
    assert printed == "{'a': 'b'} [1.0, 1.0]\n"
