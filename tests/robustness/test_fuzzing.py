"""Random driver tables and kernel sources: an error or right numbers, never a crash."""

import random
import re

import pytest
import torch

import torch_outboard
from tests.support import kernels_run_on, try_python
from torch_outboard.drivers.contract import FUNCTIONS, OPTIONAL

# A table with functions that are missing, and a wrong version or size: the kit names what is wrong,
# or the device works.
TABLE = """
import ctypes, os, sys
import torch, torch_outboard
from torch_outboard import _C
from torch_outboard.drivers import contract, host
original = contract.load(host.library_path())
table = contract.Driver.from_buffer_copy(original)
for change in sys.argv[1:]:
    name, _, value = change.partition("=")
    kind = contract.FUNCTIONS.get(name)
    setattr(table, name, int(value) if kind is None else kind(0))
_C.use_driver_table("host", ctypes.addressof(table))
x = torch.arange(6.0, device="host").reshape(2, 3)
y = (x @ x.T + torch.randn(2, 2, device="host") * 0).cpu()
assert torch.equal(y, torch.tensor([[5.0, 14.0], [14.0, 50.0]])), y
torch.accelerator.synchronize()
print("right")
"""
ALONE = {"OUTBOARD_DRIVER": "host", "OUTBOARD_FAULTS": None, "OUTBOARD_CLANG": "none"}


def changed_table(numbers):
    changes = [f"{name}=0" for name in numbers.sample(sorted(FUNCTIONS), numbers.randint(0, 4))]
    if numbers.random() < 0.3:
        changes.append(f"abi={numbers.choice([0, 1, 2, 7, 2**31])}")
    if numbers.random() < 0.3:
        changes.append(f"struct_size={numbers.choice([0, 8, 100, 300, 2**31])}")
    return changes


def try_tables(seed, count):
    numbers = random.Random(seed)
    for _ in range(count):
        changes = changed_table(numbers)
        result = try_python(TABLE, *changes, **ALONE)
        assert result.returncode in (0, 1), (changes, result.returncode, result.stderr)
        if result.returncode == 0:
            missing = {change.removesuffix("=0") for change in changes} & FUNCTIONS.keys()
            assert missing <= set(OPTIONAL), changes
            continue
        last = result.stderr.strip().splitlines()[-1]
        assert re.match(r"(RuntimeError|torch\.AcceleratorError|ValueError): .*driver", last), (
            changes,
            result.stderr,
        )


def test_tables_with_missing_functions():
    try_tables(0, 8)


@pytest.mark.slow
def test_many_tables_with_missing_functions():
    try_tables(1, 300)


TOKENS = ["a", "b", "C(2)", "C(0.5)", "+", "-", "*", "/", "(", ")", "?", ":", ">", "sqrt", "exp",
          "unknown", ",", ";", "{", "}", '"', "\\", "#define a", "//", "/*", "0", "1.5f", "while",
          "return", "__kernel", "\n", "\0", "é"]  # fmt: skip


def try_expressions(device, seed, count):
    numbers = random.Random(seed)
    a, b = torch.rand(5), torch.rand(5) + 1
    on_device = [x.to(device) for x in (a, b)]
    for _ in range(count):
        source = " ".join(numbers.choices(TOKENS, k=numbers.randint(1, 6)))
        try:
            with torch_outboard.kernel("aten::atan2", expression=source):
                found = torch.atan2(*on_device).cpu()
        except (RuntimeError, ValueError, TypeError):
            continue
        assert found.shape == a.shape, source
    with torch_outboard.kernel("aten::atan2", expression="a + b"):
        torch.testing.assert_close(torch.atan2(*on_device).cpu(), a + b)


def test_random_expressions_of_kernels(device):
    if not kernels_run_on(device.type):
        pytest.skip("the device runs no kernels")
    try_expressions(device, 0, 12)


@pytest.mark.slow
def test_many_random_expressions_of_kernels(device):
    if not kernels_run_on(device.type):
        pytest.skip("the device runs no kernels")
    try_expressions(device, 1, 400)
