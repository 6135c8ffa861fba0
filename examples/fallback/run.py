"""Operators without a kernel for the device: policies, lists, and a vendor's fallback.

    python examples/fallback/run.py

Compiles `fallback.cpp`. Exits with status 1 if an outcome differs from the expected one.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch.utils.cpp_extension import load

import torch_outboard
from torch_outboard import fallback

# Before the first use of the device: PyTorch has one slot for a fallback.
load("fallback_example", [Path(__file__).with_name("fallback.cpp")], is_python_module=False)
device = torch_outboard.device_name()
x = torch.tensor([0.5, 0.25]).to(device)


def attempt(title: str, call) -> str:
    try:
        outcome = str([round(v, 4) for v in call().tolist()])
    except NotImplementedError as error:
        outcome = "NotImplementedError: ... " + str(error).split("; ")[-1]
    print(f"{title:<34} {outcome}")
    return outcome


matrix = torch.tensor([[3.0, 0.0], [4.0, 5.0]]).to(device)

fallback.set_policy(host="allow", copied="allow")
attempt("policy 'allow'", lambda: torch.linalg.svdvals(matrix))
with fallback.policy(host="error", copied="error"):
    refused = attempt("policy 'error'", lambda: torch.linalg.svdvals(matrix))
with fallback.policy(host="error", copied="error", allow=["aten::_linalg_svd"]):
    attempt("policy 'error', allowed by a list", lambda: torch.linalg.svdvals(matrix))
with fallback.policy(deny=["aten::_linalg_svd"]):
    denied = attempt("policy 'allow', denied by a list", lambda: torch.linalg.svdvals(matrix))
assert refused.startswith("NotImplementedError"), refused
assert denied.startswith("NotImplementedError"), denied

library = torch.library.Library("fallback_example", "DEF")
library.define("third(Tensor x) -> Tensor")
library.impl("third", lambda x: x / 3, "CPU")
attempt("an operator of one's own", lambda: torch.ops.fallback_example.third(x))
attempt("an operator of PyTorch's", lambda: torch.erfinv(x))
