"""Every operator with tensors without storage that claim to be dense."""

import json

import pytest

from tests.examples.running import everywhere, run, source_file

pytestmark = pytest.mark.slow


SOURCE = """
// Tensors without storage that claim to be dense: an opaque one, and one that has strides, too.
#include <ATen/ATen.h>
#include <ATen/OpaqueTensorImpl.h>
#include <torch/library.h>

namespace {

struct Handle {};

struct Bare final : c10::TensorImpl {
  Bare(c10::DispatchKeySet keys, const caffe2::TypeMeta type, c10::Device device,
       c10::IntArrayRef sizes)
      : c10::TensorImpl(keys, type, device) {
    set_storage_access_should_throw();
    set_sizes_contiguous(sizes);
  }
};

at::Tensor make(const at::Tensor& like, const std::string& kind) {
  const c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  const auto type = like.dtype();
  if (kind == "bare") {
    return at::detail::make_tensor<Bare>(keys, type, like.device(), like.sizes());
  }
  return at::detail::make_tensor<at::OpaqueTensorImpl<Handle>>(keys, type, like.device(), Handle(),
                                                               like.sizes());
}

TORCH_LIBRARY(storageless, library) { library.def("make(Tensor like, str kind) -> Tensor", &make); }

}  // namespace
"""

# Each operator gets such tensors, and small numbers for the rest: most refuse, and none crashes.
SWEEP = """
import collections, json, sys, warnings
import torch
from torch.utils.cpp_extension import load
import torch_outboard

source, kind = sys.argv[1:]
load("storageless", [source], is_python_module=False)
warnings.simplefilter("ignore")
torch_outboard.fallback.set_policy(copied="allow")
device = torch_outboard.device_name()

def tensor(dtype):
    return torch.ops.storageless.make(torch.ones(2, 3, device=device, dtype=dtype), kind)

VALUES = {"int": 1, "SymInt": 1, "float": 1.0, "number": 1.0, "bool": False, "str": "mean",
          "ScalarType": torch.float32, "Device": torch.device(device), "List[int]": [1, 1],
          "List[SymInt]": [1, 1], "List[float]": [1.0, 1.0], "List[number]": [1.0, 1.0]}

def value(argument):
    kind = str(argument.type)
    if "Tensor" in kind:
        whole = argument.name in ("index", "indices", "target") or kind == "List[Optional[Tensor]]"
        one = tensor(torch.int64 if whole else torch.float32)
        return [one, one] if kind.startswith("List") else one
    return argument.default_value if argument.has_default_value() else VALUES.get(kind)

messages = collections.Counter()
for name in sorted(torch._C._dispatch_get_all_op_names()):
    if not name.startswith("aten::"):
        continue
    packet, _, overload = name.removeprefix("aten::").partition(".")
    op = getattr(getattr(torch.ops.aten, packet, None), overload or "default", None)
    if op is None or not any("Tensor" in str(a.type) for a in op._schema.arguments):
        continue
    arguments = op._schema.arguments
    print(name, file=sys.stderr)
    try:
        op(*[value(a) for a in arguments if not a.kwarg_only],
           **{a.name: value(a) for a in arguments if a.kwarg_only})
        messages["none"] += 1
    except Exception as error:
        messages[str(error)[:24]] += 1
torch.accelerator.synchronize()
assert torch.ones(3, device=device).sum().item() == 3
print(json.dumps(messages))
"""


@pytest.mark.parametrize("kind", ["opaque", "bare"])
@everywhere
def test_no_operator_crashes(tmp_path, kind, configuration):
    program = tmp_path / "program.py"
    program.write_text(SWEEP)
    source = source_file("storageless.cpp", SOURCE)
    messages = json.loads(run(program, configuration, str(source), kind).splitlines()[-1])
    assert sum(messages.values()) > 2500
    assert messages["a tensor without storage"] > 1500
