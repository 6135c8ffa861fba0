"""Kernels that are wrong, end the process, hang, or refuse: loaded by `scoreboard --library`."""

import os
import time
from typing import Any

import torch

library = torch.library.Library("aten", "IMPL")


def wrong(x: torch.Tensor) -> torch.Tensor:
    return torch.tan(x) + 1


def crashing(x: torch.Tensor) -> torch.Tensor:
    os.abort()


def hanging(x: torch.Tensor) -> torch.Tensor:
    time.sleep(600)
    return x


def refusing(x: torch.Tensor) -> Any:
    raise RuntimeError("not here")


for name, fault in (
    ("sinh", wrong), ("cosh", crashing), ("asinh", hanging), ("acosh", refusing), ("atanh", wrong),
):  # fmt: skip
    library.impl(name, fault, "PrivateUse1")
